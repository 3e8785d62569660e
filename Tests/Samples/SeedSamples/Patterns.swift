// The patterns of the guide to modelling and versioning data, as an application of the current API writes
// them. Each function is one pattern; `PatternTests` runs them.
import DittoSwift

/// "Creating relationships": documents refer to others by their ids.
enum Relationships {
    /// A car's id names its owner, which never changes.
    static func add(person: String, name: String, cars: [String], to ditto: Ditto) async throws {
        // "Using a Write Transaction": whoever sees a car sees its owner.
        try await ditto.store.transaction { transaction in
            try await transaction.execute(
                query: "INSERT INTO people DOCUMENTS (:person)",
                arguments: ["person": ["_id": person, "name": name]])
            for car in cars {
                let id: [String: Any?] = ["orderId": car, "owner": person]
                try await transaction.execute(
                    query: "INSERT INTO cars DOCUMENTS (:car)",
                    arguments: ["car": ["_id": id, "make": "Hyundai", "color": "red"] as [String: Any?]])
            }
        }
    }

    static func cars(of person: String, in executing: DittoQueryExecuting) async throws -> [String] {
        let result = try await executing.execute(
            query: "SELECT * FROM cars WHERE _id.owner = :person ORDER BY _id.orderId",
            arguments: ["person": person])
        return result.items.compactMap { ($0.value["_id"] as? [String: Any?])?["orderId"] as? String }
    }

    /// The one car of a composite id.
    static func car(_ order: String, of person: String, in ditto: Ditto) async throws -> [String: Any?]? {
        let id: [String: Any?] = ["orderId": order, "owner": person]
        let result = try await ditto.store.execute(
            query: "SELECT * FROM cars WHERE _id = :id", arguments: ["id": id])
        return result.items.first?.value
    }
}

/// "Role-based permissions to documents": what to show is a field.
enum Notes {
    static func write(_ text: String, firstClassOnly: Bool, to ditto: Ditto) async throws {
        try await ditto.store.execute(
            query: "INSERT INTO notes DOCUMENTS (:note)",
            arguments: ["note": ["text": text, "firstClassOnly": firstClassOnly] as [String: Any?]])
    }

    static func shown(toFirstClass isFirstClass: Bool, in ditto: Ditto) async throws -> [String] {
        let result = try await ditto.store.execute(
            query: "SELECT * FROM notes WHERE firstClassOnly = false OR :first ORDER BY text",
            arguments: ["first": isFirstClass])
        return result.items.compactMap { $0.value["text"] as? String }
    }
}

/// "When do I version my documents?": the second version of the application.
struct V2Car: Equatable {
    let id: String
    let make: String
    let year: Int
    let hometown: String

    /// A document of either version; nil for one of a later version.
    init?(_ document: [String: Any?]) {
        guard let id = document["_id"] as? String, let make = document["make"] as? String else { return nil }
        self.id = id
        self.make = make
        switch document["_schemaVersion"] as? Int {
        case 1?:
            guard let year = (document["year"] as? String).flatMap({ Int($0) }) else { return nil }
            self.year = year
            hometown = "N/A"
        case 2?:
            guard let year = document["year"] as? Int else { return nil }
            self.year = year
            hometown = document["hometown"] as? String ?? "N/A"
        default: return nil
        }
    }
}

/// The first version of the application.
enum FirstVersion {
    /// "Same-version compatibility": what is of another version is not read.
    static func cars(in ditto: Ditto) async throws -> [String] {
        let result = try await ditto.store.execute(
            query: "SELECT * FROM cars WHERE _schemaVersion = 1 ORDER BY _id")
        return result.items.compactMap { $0.value["make"] as? String }
    }

    /// Writes the fields it knows, and keeps those that it does not know.
    static func repaint(_ id: String, color: String, in ditto: Ditto) async throws {
        try await ditto.store.execute(
            query: "UPDATE cars SET color = :color WHERE _id = :id", arguments: ["id": id, "color": color])
    }

    /// "Supporting the latest version": a document of a newer version ends sync.
    static func stopSyncForNewerVersions(
        _ ditto: Ditto, notify: @escaping @Sendable () -> Void
    ) throws -> DittoStoreObserver {
        try ditto.store.registerObserver(query: "SELECT * FROM cars WHERE _schemaVersion > 1") { result in
            guard !result.items.isEmpty else { return }
            // Notify user to update to latest application version.
            ditto.sync.stop()
            notify()
        }
    }
}

/// Deleting softly: marked first, gone later.
enum SoftDelete {
    static func delete(_ id: String, from ditto: Ditto) async throws {
        try await ditto.store.execute(
            query: "UPDATE cars SET isDeleted = true WHERE _id = :id", arguments: ["id": id])
    }

    static func live(in ditto: Ditto) async throws -> [String] {
        let result = try await ditto.store.execute(
            query: "SELECT * FROM cars WHERE isDeleted IS MISSING OR isDeleted = false ORDER BY _id")
        return result.items.compactMap { $0.value["_id"] as? String }
    }

    /// Lets this device forget what was deleted.
    static func sweep(_ ditto: Ditto) async throws -> Int {
        let result = try await ditto.store.execute(query: "EVICT FROM cars WHERE isDeleted = true")
        return result.mutatedDocumentIDs().count
    }
}

/// "Ping-Pong Effect": two ways of dealing with changes that were made at the same time.
enum ConcurrentEdits {
    /// "Auditing concurrency conflicts": each change is an entry of its own in a map.
    static func audit(_ car: String, _ change: String, by peer: String, in ditto: Ditto) async throws {
        try await ditto.store.execute(
            query: "UPDATE cars SET log.\(peer) = :change WHERE _id = :id",
            arguments: ["id": car, "change": change])
    }

    /// "Prompting end users to choose": each device proposes a value of its own.
    static func propose(_ color: String, for car: String, by peer: String, in ditto: Ditto) async throws {
        try await ditto.store.execute(
            query: "UPDATE cars SET proposals.\(peer) = :color WHERE _id = :id",
            arguments: ["id": car, "color": color])
    }

    static func proposals(for car: String, in ditto: Ditto) async throws -> [String: String] {
        let result = try await ditto.store.execute(
            query: "SELECT proposals FROM cars WHERE _id = :id", arguments: ["id": car])
        let proposals = result.items.first?.value["proposals"] as? [String: Any?]
        return (proposals ?? [:]).compactMapValues { $0 as? String }
    }

    /// The user's choice becomes the value, and nothing is left to choose from.
    static func choose(_ color: String, for car: String, in ditto: Ditto) async throws {
        try await ditto.store.execute(
            query: "UPDATE cars SET color = :color UNSET proposals WHERE _id = :id",
            arguments: ["id": car, "color": color])
    }
}

/// "Instead of computing diffs synchronously with every store observer update, it is recommended to debounce
/// diffing".
final class DebouncedDiffing: @unchecked Sendable {
    // Unchecked: everything below is touched on `queue` only.
    private let queue = DispatchQueue(label: "diffing")
    private let differ = DittoDiffer()
    private let interval: TimeInterval
    private let handler: @Sendable (DittoDiff, _ ids: [String]) -> Void
    private var latest: [DittoQueryResultItem]?

    init(every interval: TimeInterval, handler: @escaping @Sendable (DittoDiff, _ ids: [String]) -> Void) {
        self.interval = interval
        self.handler = handler
    }

    func observe(_ query: String, in ditto: Ditto) throws -> DittoStoreObserver {
        try ditto.store.registerObserver(query: query, deliverOn: queue) { [self] result in
            let isDue = latest == nil
            latest = result.items
            if isDue { queue.asyncAfter(deadline: .now() + interval) { [self] in diff() } }
        }
    }

    private func diff() {
        guard let items = latest else { return }
        latest = nil
        let diff = differ.diff(items)
        handler(diff, items.map { $0.value["_id"] as? String ?? "" })
    }
}
