import DittoSwift
import Mimeo
import TestSupport
import Testing

@Suite("Two peers and a server in one process", .timeLimit(.minutes(5)))
struct EndToEndTests {
    private func open(_ server: EmbeddedServer, _ directory: URL, _ name: String) async throws -> Ditto {
        let ditto = try await Ditto.openAlone(
            config: DittoConfig(
                databaseID: server.databaseID, connect: .server(url: server.url),
                persistenceDirectory: directory.appendingPathComponent(name)))
        ditto.auth?.expirationHandler = { ditto, _ in
            _ = try? await ditto.auth?.login(token: server.token, provider: .development)
        }
        return ditto
    }

    private func rows(_ ditto: Ditto, _ query: String = "SELECT * FROM cars ORDER BY _id") async throws
        -> [String]
    {
        try await ditto.store.execute(query: query).items.map { $0.jsonString() }
    }

    @Test("what is written offline and online on both sides converges, and observers see it")
    func converge() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try await open(server, directory, "a")
                let b = try await open(server, directory, "b")
                for ditto in [a, b] { try ditto.sync.registerSubscription(query: "SELECT * FROM cars") }
                let seen = Collected<Int>()
                try b.store.registerObserver(query: "SELECT * FROM cars") { seen.add($0.items.count) }
                // Offline, both.
                try await a.store.execute(
                    query: "INSERT INTO cars DOCUMENTS (:a), (:b)",
                    arguments: ["a": ["_id": 1, "engine": ["l": 1.2]], "b": ["_id": 2]])
                try await b.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 3, 'by': 'b'})")
                try a.sync.start()
                try b.sync.start()
                #expect(await seen.wait { $0.last == 3 }.last == 3)
                #expect(try await eventually { try await rows(a).count == 3 })
                // Conflicting, offline again: different fields of one document.
                await a.sync.stopAndWait()
                await b.sync.stopAndWait()
                try await a.store.execute(query: "UPDATE cars SET engine.kind = 'electric' WHERE _id = 1")
                let last = try await b.store.execute(
                    query: "UPDATE cars SET engine.l = 1.4, seats = 4 WHERE _id = 1")
                try a.sync.start()
                try b.sync.start()
                #expect(await b.sync.waitForAcknowledgement(of: last.commitID ?? 0, timeout: .seconds(60)))
                let merged = #"{"_id":1,"engine":{"kind":"electric","l":1.4},"seats":4}"#
                for ditto in [a, b] {
                    #expect(try await eventually { try await rows(ditto).first == merged })
                }
                #expect(try await rows(a) == rows(b))
                await a.close()
                await b.close()
            }
        }
    }

    @Test("counters add up, seeds meet, attachments travel, and every kind arrives as what it is")
    func kinds() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try await open(server, directory, "a")
                let b = try await open(server, directory, "b")
                let token: [String: Any?] = ["id": "abc", "len": 3, "metadata": ["name": "x"]]
                for ditto in [a, b] {
                    try ditto.sync.registerSubscription(query: "SELECT * FROM cars")
                    // Each on its own, before they have met.
                    try await ditto.store.execute(
                        query: "INSERT INTO cars INITIAL DOCUMENTS ({'_id': 1, 'make': 'Ford'})")
                    try await ditto.store.execute(query: "UPDATE cars APPLY seen INCREMENT BY 3")
                }
                try await a.store.execute(
                    query: "UPDATE COLLECTION cars (photo ATTACHMENT) SET photo = :token",
                    arguments: ["token": token])
                try a.sync.start()
                try b.sync.start()
                let both =
                    #"{"_id":1,"make":"Ford","photo":{"id":"abc","len":3,"metadata":{"name":"x"}},"seen":6}"#
                for ditto in [a, b] {
                    #expect(try await eventually { try await rows(ditto) == [both] })
                }
                await a.sync.stopAndWait()
                // RESTART discards what its writer had seen, and nothing else.
                try await a.store.execute(query: "UPDATE cars APPLY seen RESTART WITH 100")
                let last = try await b.store.execute(query: "UPDATE cars APPLY seen INCREMENT BY 1")
                #expect(await b.sync.waitForAcknowledgement(of: last.commitID ?? 0, timeout: .seconds(60)))
                try a.sync.start()
                for ditto in [a, b] {
                    #expect(
                        try await eventually {
                            try await rows(ditto, "SELECT seen FROM cars") == [#"{"seen":101}"#]
                        })
                }
                let row = "SELECT documents.sync_session_status AS s FROM system:data_sync_info"
                #expect(try await eventually { try await rows(b, row) == [#"{"s":"Connected"}"#] })
                await a.close()
                await b.close()
            }
        }
    }

    @Test("every type of value survives the way over the log to another peer, 1 and 1.0 apart")
    func types() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try await open(server, directory, "a")
                let b = try await open(server, directory, "b")
                let values: [String: Any?] = [
                    "_id": "all", "int": Int64.max, "one": 1, "float": 1.0, "tiny": -0.0, "text": "e\u{301}",
                    "yes": true, "nothing": nil, "bytes": Data([0, 255]), "list": [1, 1.0, "1", [true]],
                    "map": ["inner": ["deep": Int64.min]],
                ]
                try await a.store.execute(
                    query: "INSERT INTO cars DOCUMENTS (:d)", arguments: ["d": values])
                try b.sync.registerSubscription(query: "SELECT * FROM cars")
                try a.sync.start()
                try b.sync.start()
                #expect(try await eventually { try await rows(b).count == 1 })
                #expect(try await rows(b) == rows(a))
                let types = """
                    SELECT type(int) AS i, type(one) AS o, type(float) AS f, type(bytes) AS b, \
                    type(list[1]) AS l, \
                    type(nothing) AS n, type(map.inner.deep) AS d, one = float AS same FROM cars
                    """
                let expected =
                    #"{"i":"integer","o":"integer","f":"float","b":"binary","l":"float","n":"null","#
                    + #""d":"integer","same":true}"#
                #expect(try await rows(b, types) == [expected])
                #expect(try await rows(b, types) == rows(a, types))
                await a.close()
                await b.close()
            }
        }
    }

    @Test("what a sync scope keeps from the server stays here, until sync starts without the scope")
    func syncScopes() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try await open(server, directory, "a")
                let b = try await open(server, directory, "b")
                for ditto in [a, b] { try ditto.sync.registerSubscription(query: "SELECT * FROM cars") }
                let scopes = "ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES ="
                for scope in ["LocalPeerOnly", "smallpeersonly"] {
                    try await a.store.execute(query: "\(scopes) {'cars': '\(scope)', 'boats': 'BigPeerOnly'}")
                    try await a.store.execute(
                        query: "INSERT INTO cars DOCUMENTS ({'_id': '\(scope)', 'by': 'a'})")
                }
                try a.sync.start()
                try b.sync.start()
                try b.sync.registerSubscription(query: "SELECT * FROM boats")
                try await b.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'b'})")
                let open = try await a.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 1})")
                #expect(await a.sync.waitForAcknowledgement(of: open.commitID ?? 0, timeout: .seconds(30)))
                // What others write there comes all the same.
                #expect(try await eventually { try await rows(a).count == 3 })
                #expect(
                    try await eventually { try await rows(b, "SELECT * FROM boats").count == 1 })
                #expect(try await rows(b) == [#"{"_id":"b"}"#])
                await a.sync.stopAndWait()
                try await a.store.execute(query: "\(scopes) {}")
                try a.sync.start()
                #expect(try await eventually { try await rows(b).count == 3 })
                #expect(try await rows(a) == rows(b))
                await a.close()
                await b.close()
            }
        }
    }

    @Test("a sync scope that is widened while sync runs lets through what waited and what comes")
    func widenedScope() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try await open(server, directory, "a")
                let b = try await open(server, directory, "b")
                let scopes = "ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES ="
                try await a.store.execute(
                    query: "\(scopes) {'cars': 'LocalPeerOnly', 'boats': 'SmallPeersOnly'}")
                for ditto in [a, b] {
                    try ditto.sync.registerSubscription(query: "SELECT * FROM cars")
                    try ditto.sync.registerSubscription(query: "SELECT * FROM boats")
                    try ditto.sync.start()
                }
                try await a.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'waits'})")
                try await a.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 'stays'})")
                #expect(await eventually { a.sync.status.text == "connected" })
                try await a.store.execute(query: "\(scopes) {'cars': 'AllPeers', 'boats': 'SmallPeersOnly'}")
                #expect(try await eventually { try await rows(b) == [#"{"_id":"waits"}"#] })
                let next = try await a.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'x'})")
                #expect(await a.sync.waitForAcknowledgement(of: next.commitID ?? 0, timeout: .seconds(60)))
                #expect(try await eventually { try await rows(b).count == 2 })
                #expect(try await rows(b, "SELECT * FROM boats").isEmpty)
                #expect(a.sync.isActive)
                await a.close()
                await b.close()
            }
        }
    }

    @Test("system:data_sync_info names the server by its key, the same for every peer and after a restart")
    func serverKey() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let row = "SELECT RAW _id FROM system:data_sync_info"
                let before = try await open(server, directory, "a")
                #expect(try await rows(before, row) == [#""server""#])
                await before.close()
                var keys: Set<String> = []
                for name in ["a", "b", "a"] {
                    let ditto = try await open(server, directory, name)
                    try ditto.sync.start()
                    #expect(try await eventually { try await rows(ditto, row) != [#""server""#] })
                    let key = try await rows(ditto, row).first ?? ""
                    #expect(key.hasPrefix("\"pk") && key.count == 48)
                    #expect(key != "\"\(ditto.presence.graph.localPeer.peerKey)\"")
                    keys.insert(key)
                    await ditto.close()
                }
                #expect(keys.count == 1)
            }
        }
    }

    @Test("a cancelled subscription brings nothing more, and keeps what it brought")
    func cancelledSubscription() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try await open(server, directory, "a")
                let b = try await open(server, directory, "b")
                try a.sync.start()
                try b.sync.start()
                let subscription = try b.sync.registerSubscription(query: "SELECT * FROM cars")
                try await a.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 1})")
                #expect(try await eventually { try await rows(b).count == 1 })
                subscription.cancel()
                try b.sync.registerSubscription(query: "SELECT * FROM boats")
                // A boat that comes tells that the server has heard of both.
                try await a.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 0})")
                #expect(try await eventually { try await rows(b, "SELECT * FROM boats").count == 1 })
                try await a.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 2})")
                try await a.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 1})")
                #expect(try await eventually { try await rows(b, "SELECT * FROM boats").count == 2 })
                #expect(try await rows(b) == [#"{"_id":1}"#])
                await a.close()
                await b.close()
            }
        }
    }

    @Test("acknowledgement is waited for no longer than asked")
    func acknowledgementTimeout() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let ditto = try await open(server, directory, "a")
                let write = try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 1})")
                let commit = try #require(write.commitID)
                #expect(await !ditto.sync.waitForAcknowledgement(of: commit, timeout: .milliseconds(50)))
                #expect(try ditto.sync.commits().acknowledged == commit - 1)
                try ditto.sync.start()
                #expect(await ditto.sync.waitForAcknowledgement(of: commit, timeout: .seconds(60)))
                await ditto.close()
            }
        }
    }
}
