import DittoSwift
import Foundation

/// The code of the manual's page `MovingFrom4x`, as it stands there: each pair as two functions on one store.
enum Old {
    static func start(_ databaseID: String, _ token: String, _ url: String, _ directory: URL) throws -> Ditto
    {
        let ditto = Ditto(
            identity: .onlinePlayground(appID: databaseID, token: token, customAuthURL: URL(string: url)),
            persistenceDirectory: directory)
        try ditto.disableSyncWithV3()
        try ditto.startSync()
        return ditto
    }

    static func write(_ ditto: Ditto) throws -> String {
        let id = try ditto.store.collection("cars").upsert(
            ["_id": "a", "make": "Ford", "color": "red", "year": 1999] as [String: Any?])
        return id.stringValue
    }

    static func defaults(_ ditto: Ditto) throws -> String {
        try ditto.store.collection("settings").upsert(
            ["_id": "ui", "color": "grey"], writeStrategy: .insertDefaultIfAbsent)
        return ""
    }

    static func read(_ ditto: Ditto) throws -> String {
        let cars = ditto.store.collection("cars")
            .find("color == $args.color && year > 1990", args: ["color": "red"])
            .sort("year", direction: .descending).limit(10).exec()
        let makes = cars.map { $0["make"].stringValue }
        return makes.joined(separator: " ")
    }

    static func readOne(_ ditto: Ditto) throws -> String {
        let car = ditto.store.collection("cars").findByID("a").exec()
        let make = car?["make"].stringValue ?? "none"
        return make
    }

    static func change(_ ditto: Ditto) throws -> String {
        ditto.store.collection("cars").findByID("a").update { car in
            car?["color"].set("blue")
            car?["engine"]["kw"].set(90)
            car?["year"].remove()
        }
        return ""
    }

    static func count(_ ditto: Ditto) throws -> String {
        try ditto.store.collection("stock").upsert(["_id": "a", "count": DittoCounter()])
        ditto.store.collection("stock").findByID("a").update { item in
            item?["count"].counter?.increment(by: 3)
        }
        return ""
    }

    static func remove(_ ditto: Ditto) throws -> String {
        let removed = ditto.store.collection("cars").find("color == 'red'").remove()
        let evicted = ditto.store.collection("cars").findAll().evict()
        return "\(removed) \(evicted)"
    }

    static func transaction(_ ditto: Ditto) throws -> String {
        ditto.store.write { transaction in
            let people = transaction.scoped(toCollectionNamed: "people")
            let cars = transaction.scoped(toCollectionNamed: "cars")
            do {
                try people.upsert(["_id": "susan", "name": "Susan"])
                try cars.upsert(["_id": "b", "owner": "susan"])
            } catch {
                print(error.localizedDescription)
            }
        }
        return ""
    }

    static func subscribe(_ ditto: Ditto) throws -> String {
        let subscription = ditto.store.collection("cars").find("color == 'red'").subscribe()
        defer { subscription.cancel() }
        return ditto.sync.subscriptions.map(\.queryString).joined()
    }

    static func observe(_ ditto: Ditto, show: @escaping (String) -> Void) throws -> () -> Void {
        let query = ditto.store.collection("cars").find("color == 'red'").observeLocal { cars, event in
            guard case .update(let update) = event else { return show("first \(cars.count)") }
            show("\(update.insertions.count) more")
        }
        return { query.stop() }
    }

    static func attach(_ ditto: Ditto, path: String) throws -> Int? {
        if let attachment = ditto.store.collection("files").newAttachment(path: path) {
            try ditto.store.collection("files").upsert(["_id": "a", "file": attachment])
        }
        let token = ditto.store.collection("files").findByID("a").exec()?["file"].attachmentToken
        return token?.len
    }

    static func logOut(_ ditto: Ditto) throws {
        ditto.auth?.logout(cleanup: { ditto in
            ditto.store.collection("cars").findAll().evict()
        })
    }
}

/// The same in the current API.
enum New {
    static func start(_ databaseID: String, _ token: String, _ url: String, _ directory: URL) async throws
        -> Ditto
    {
        let ditto = try await Ditto.open(
            config: DittoConfig(
                databaseID: databaseID, connect: .server(url: url), persistenceDirectory: directory))
        ditto.auth?.expirationHandler = { ditto, secondsRemaining in
            _ = try? await ditto.auth?.login(token: token, provider: .development)
        }
        try ditto.sync.start()
        return ditto
    }

    static func write(_ ditto: Ditto) async throws -> String {
        let result = try await ditto.store.execute(
            query: "INSERT INTO cars DOCUMENTS (:car) ON ID CONFLICT DO UPDATE",
            arguments: ["car": ["_id": "a", "make": "Ford", "color": "red", "year": 1999]])
        let id = result.mutatedDocumentIDs()[0]
        return id.stringValue
    }

    static func defaults(_ ditto: Ditto) async throws -> String {
        try await ditto.store.execute(
            query: "INSERT INTO settings INITIAL DOCUMENTS ({'_id': 'ui', 'color': 'grey'})")
        return ""
    }

    static func read(_ ditto: Ditto) async throws -> String {
        let result = try await ditto.store.execute(
            query: "SELECT * FROM cars WHERE color = :color AND year > 1990 ORDER BY year DESC LIMIT 10",
            arguments: ["color": "red"])
        let makes = result.items.map { $0.value["make"] as? String ?? "" }
        return makes.joined(separator: " ")
    }

    static func readOne(_ ditto: Ditto) async throws -> String {
        let result = try await ditto.store.execute(
            query: "SELECT * FROM cars WHERE _id = :id", arguments: ["id": "a"])
        let make = result.items.first?.value["make"] as? String ?? "none"
        return make
    }

    static func change(_ ditto: Ditto) async throws -> String {
        try await ditto.store.execute(
            query: "UPDATE cars SET color = 'blue', engine.kw = 90 UNSET year WHERE _id = :id",
            arguments: ["id": "a"])
        return ""
    }

    static func count(_ ditto: Ditto) async throws -> String {
        try await ditto.store.execute(
            query: "INSERT INTO COLLECTION stock (count COUNTER) DOCUMENTS ({'_id': 'a', 'count': 0})")
        try await ditto.store.execute(query: "UPDATE stock APPLY count PN_INCREMENT BY 3 WHERE _id = 'a'")
        return ""
    }

    static func remove(_ ditto: Ditto) async throws -> String {
        let removed = try await ditto.store.execute(query: "DELETE FROM cars WHERE color = 'red'")
            .mutatedDocumentIDs()
        let evicted = try await ditto.store.execute(query: "EVICT FROM cars").mutatedDocumentIDs()
        return "\(removed) \(evicted)"
    }

    static func transaction(_ ditto: Ditto) async throws -> String {
        try await ditto.store.transaction { transaction in
            try await transaction.execute(
                query: "INSERT INTO people DOCUMENTS ({'_id': 'susan', 'name': 'Susan'})")
            try await transaction.execute(
                query: "INSERT INTO cars DOCUMENTS ({'_id': 'b', 'owner': 'susan'})")
        }
        return ""
    }

    static func subscribe(_ ditto: Ditto) async throws -> String {
        let subscription = try ditto.sync.registerSubscription(
            query: "SELECT * FROM cars WHERE color = 'red'")
        defer { subscription.cancel() }
        return ditto.sync.subscriptions.map(\.queryString).joined()
    }

    static func observe(_ ditto: Ditto, show: @escaping (String) -> Void) throws -> () -> Void {
        let differ = DittoDiffer()
        var isFirst = true
        let observer = try ditto.store.registerObserver(
            query: "SELECT * FROM cars WHERE color = 'red' ORDER BY _id"
        ) { result in
            let difference = differ.diff(result.items)
            show(isFirst ? "first \(result.items.count)" : "\(difference.insertions.count) more")
            isFirst = false
        }
        return { observer.cancel() }
    }

    static func attach(_ ditto: Ditto, path: String) async throws -> Int? {
        let attachment = try await ditto.store.newAttachment(path: path)
        try await ditto.store.execute(
            query: "INSERT INTO files DOCUMENTS (:file)",
            arguments: ["file": ["_id": "a", "file": attachment]])
        let rows = try await ditto.store.execute(query: "SELECT file FROM files").items
        let token = rows[0].value["file"] as? [String: Any?]
        return token?["len"] as? Int
    }

    static func logOut(_ ditto: Ditto) async throws {
        ditto.auth?.logout()
        try await ditto.store.execute(query: "EVICT FROM cars")
    }
}
