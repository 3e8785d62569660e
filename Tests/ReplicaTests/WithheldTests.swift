import CRDT
import DQL
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Collections that are withheld from the server")
struct WithheldTests {
    /// Everything that a session could send as an upload.
    private func uploads(_ replica: PeerReplica) throws -> [OwnOperation] {
        try replica.ownActors().flatMap {
            try replica.ownOperations(of: $0.actor, after: $0.acknowledged, maxBytes: .max)
        }
    }

    private func names(_ operations: [OwnOperation]) throws -> [CollectionName] {
        try operations.flatMap { try CRDT.Operation(decoding: $0.bytes).changes.map(\.collection) }
    }

    @Test("what is written there is shown and durable, and none of it is among the own operations")
    func withheld() throws {
        try withPeer { replica, _ in
            replica.withhold(["mine"])
            let made = try replica.execute("INSERT INTO mine DOCUMENTS ({'_id': 1})")
            #expect(made.operation == nil)
            #expect(made.commit == 1)
            try replica.execute("UPDATE mine SET n = 2")
            #expect(try replica.rows("SELECT * FROM mine") == [#"{"_id":1,"n":2}"#])
            #expect(try uploads(replica).isEmpty)
            #expect(try replica.ownActors().isEmpty)
            #expect(try replica.acknowledgedCommit() == 2)
            #expect(try replica.isWithheld(commit: 2) && !replica.isWithheld(commit: 3))
            #expect(replica.isWithheld("mine") && !replica.isWithheld("min"))
            // Names are compared by their bytes.
            replica.withhold(["caf\u{E9}"])
            #expect(!replica.isWithheld("cafe\u{301}"))
        }
    }

    @Test("of a transaction over several collections the others' part is uploaded, under its own stamp")
    func mixed() throws {
        try withPeer { replica, _ in
            replica.withhold(["mine", "ours"])
            let insert = try ["mine", "c", "ours", "d"].map {
                try PreparedStatement("INSERT INTO \($0) DOCUMENTS ({'_id': 1})")
            }
            let made = try replica.write { transaction in
                for statement in insert {
                    _ = try statement.execute(
                        in: transaction, arguments: ObjectValue(),
                        idGenerator: { preconditionFailure("ids are given") })
                }
            }
            #expect(made.operation?.changes.map(\.collection) == ["c", "d"])
            #expect(try names(uploads(replica)) == ["c", "d"])
            #expect(made.operation?.actor == replica.actor)
            replica.withhold([])
            #expect(try replica.releaseWithheld() == 2)
            #expect(try names(uploads(replica)).sorted() == ["c", "d", "mine", "ours"])
            let authors = try replica.ownActors().map(\.actor)
            #expect(Set(authors).count == 3)
        }
    }

    @Test("what subscriptions hold of a collection is listed anew when it is withheld no more")
    func placesForgotten() throws {
        try withPeer { replica, _ in
            let query = try SubscriptionQuery(statement: "SELECT * FROM mine WHERE n > 5")
            let other = try SubscriptionQuery(statement: "SELECT * FROM c")
            replica.setLiveQueries([query, other])
            let place = TestLog().position(4)
            for key in [query, other].map(\.canonicalKey) {
                let end = Reception(cursors: [(key, place)], publishes: key, rights: [1])
                #expect(try replica.receive(end) == .stored)
            }
            replica.withhold(["mine"])
            try replica.execute("INSERT INTO mine DOCUMENTS ({'_id': 1, 'n': 9})")
            #expect(try replica.releaseWithheld() == 0)
            #expect(try replica.cursor(of: query.canonicalKey) == place)
            replica.withhold([])
            #expect(try replica.releaseWithheld() == 1)
            // It is sent, so that the server can say where the right to read has ended.
            #expect(try replica.cursor(of: query.canonicalKey) == place)
            #expect(try replica.rights(of: query.canonicalKey) == [])
            #expect(try replica.cursor(of: other.canonicalKey) == place)
            #expect(try replica.rights(of: other.canonicalKey) == [1])
        }
    }

    @Test("so is what those hold that are asked for later, and a restored log asks for everything once more")
    func withoutSubscription() throws {
        try withPeer { replica, _ in
            let query = try SubscriptionQuery(statement: "SELECT * FROM mine")
            let log = TestLog()
            let end = Reception(
                cursors: [(query.canonicalKey, log.position(4))], publishes: query.canonicalKey,
                seen: log.position(4), rights: [1])
            #expect(try replica.receive(end) == .stored)
            replica.withhold(["mine"])
            try replica.execute("INSERT INTO mine DOCUMENTS ({'_id': 1})")
            try replica.noteSeen(log.position(3), replaces: true)
            replica.setLiveQueries([])
            replica.withhold([])
            #expect(try replica.releaseWithheld() == 1)
            #expect(try replica.cursor(of: query.canonicalKey) == log.position(4))
            #expect(try replica.rights(of: query.canonicalKey) == [])
            #expect(try replica.declinedRights() == [])
        }
    }

    @Test("it stays withheld over restarts, until a session begins that nobody has told of it")
    func restarts() throws {
        try withTemporaryDirectory { folder in
            let environment = TestEnvironment()
            let first = try open(folder, environment)
            first.withhold(["mine"])
            try first.execute("INSERT INTO mine DOCUMENTS ({'_id': 1})")
            try first.close()
            let second = try open(folder, environment)
            // Before the application has said anything.
            #expect(try second.execute("UPDATE mine SET n = 2").operation == nil)
            second.withhold(["mine"])
            #expect(try second.releaseWithheld() == 0)
            #expect(try uploads(second).isEmpty)
            try second.close()
            let third = try open(folder, environment)
            #expect(try third.releaseWithheld() == 2)
            #expect(try third.releaseWithheld() == 0)
            #expect(try names(uploads(third)) == ["mine", "mine"])
            #expect(try third.acknowledgedCommit() < third.head)
            #expect(try third.execute("UPDATE mine SET n = 3").operation != nil)
            try third.close()
        }
    }

    @Test("lists of what is held name neither its documents nor the entries of its authors")
    func lists() throws {
        try withPeer { replica, _ in
            let shared = try document("a", 1, by: 5, at: 10)
            let update = DocumentUpdate(key: try key("mine", 1), content: .state(shared.encoded()))
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            replica.withhold(["mine"])
            try replica.execute("UPDATE mine SET b = 2")
            try replica.execute("INSERT INTO mine DOCUMENTS ({'_id': 2})")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let query = try SubscriptionQuery(statement: "SELECT * FROM mine")
            let held = try replica.held(of: query, after: nil)
            #expect(held.candidates.map(\.id) == [try key("mine", 1).id])
            #expect(held.candidates.map(\.known) == [shared.vector])
            #expect(try replica.holdings(after: nil).candidates.map(\.key) == [try key("c", 1)])
            let given = try replica.openStates(of: [key("c", 1), key("mine", 1), key("mine", 2)])
            #expect(given.map { $0.state != nil } == [true, false, false])
            // Nor is a document asked for that nobody else can have.
            replica.setLiveQueries([query])
            try replica.execute("EVICT FROM mine")
            #expect(try replica.wanted(limit: 10) == [try key("mine", 1)])
        }
    }

    @Test(
        "a restored log gets the others back at once, and what holds something withheld when it is released")
    func owed() throws {
        try withPeer { replica, _ in
            let shared = try document("a", 1, by: 5, at: 10)
            let updates = try (1...2).map {
                DocumentUpdate(key: try key("mine", .int(Int64($0))), content: .state(shared.encoded()))
            }
            let log = TestLog()
            let seen = Reception(updates: updates, seen: log.position(9))
            #expect(try replica.receive(seen) == .stored)
            replica.withhold(["mine"])
            try replica.execute("UPDATE mine SET b = 2 WHERE _id = 1")
            // The second document is not concerned.
            #expect(try replica.holdings(after: nil).candidates.map(\.key) == [try key("mine", 2)])
            try replica.noteSeen(log.position(3), replaces: true)
            #expect(try replica.seenPosition() == log.position(3))
            #expect(try replica.releaseWithheld() == 0)
            try replica.noteSeen(log.position(5), replaces: false)
            replica.withhold([])
            #expect(try replica.releaseWithheld() == 1)
            // The next handshake names what the log has lost: the server asks again.
            #expect(try replica.seenPosition() == log.position(9))
            #expect(try replica.holdings(after: nil).candidates.count == 2)
            try replica.noteSeen(log.position(6), replaces: true)
            #expect(try replica.releaseWithheld() == 0)
            #expect(try replica.seenPosition() == log.position(6))
        }
    }

    @Test("a document that was evicted is written there by somebody new")
    func evicted() throws {
        try withPeer { replica, _ in
            replica.withhold(["mine"])
            try replica.execute("INSERT INTO mine DOCUMENTS ({'_id': 1, 'a': 1})")
            try replica.execute("EVICT FROM mine")
            try replica.execute("INSERT INTO mine DOCUMENTS ({'_id': 1, 'b': 1})")
            replica.withhold([])
            #expect(try replica.releaseWithheld() == 2)
            #expect(try replica.ownActors().map(\.sequence) == [1, 1])
        }
    }

    @Test("a document that came back without what was withheld is asked for again when that is uploaded")
    func cameBack() throws {
        try withPeer { replica, _ in
            let query = try SubscriptionQuery(statement: "SELECT * FROM mine")
            replica.setLiveQueries([query])
            let base = try document("a", 1, by: 5, at: 10)
            let update = DocumentUpdate(key: try key("mine", 1), content: .state(base.encoded()))
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            replica.withhold(["mine"])
            try replica.execute("UPDATE mine SET b = 2")
            try replica.execute("INSERT INTO mine DOCUMENTS ({'_id': 2})")
            try replica.execute("EVICT FROM mine WHERE _id = 1")
            let settles = [try key("mine", 1)]
            #expect(try replica.receive(Reception(updates: [update], settles: settles)) == .stored)
            #expect(try replica.wanted(limit: 10).isEmpty)
            replica.withhold([])
            #expect(try replica.releaseWithheld() == 2)
            #expect(try replica.wanted(limit: 10) == settles)
        }
    }

    @Test("what came before the scope is uploaded before what rests on it, and the server ends as the peer")
    func order() throws {
        for seed in Depth.seeds(fast: 10, deep: 600) {
            try withTemporaryDirectory { folder in
                var history = try History(folder, seed: seed)
                for _ in 0..<60 { try history.step() }
                try history.finish()
            }
        }
    }

    /// A store that withholds one collection after the other, another author, and the server's fold.
    private struct History {
        let folder: URL
        let environment: TestEnvironment
        let server: Materialization
        var replica: PeerReplica
        var log = TestLog()
        var random: SplitMix64
        var evicted: Set<DocumentKey> = []
        var withheld: Set<String> = []
        let seed: UInt64

        init(_ folder: URL, seed: UInt64) throws {
            self.folder = folder
            self.seed = seed
            environment = TestEnvironment(seed: seed)
            random = SplitMix64(seed: seed)
            server = try openFold(folder.appendingPathComponent("server"))
            replica = try ReplicaTests.open(folder.appendingPathComponent("peer"), environment)
        }

        mutating func step() throws {
            environment.milliseconds += UInt64(random.below(50))
            let name = random.pick(["c", "d"])
            let id = random.below(4)
            switch random.below(20) {
            case 0..<9: try write(name, id)
            case 9..<11: try upload()
            case 11..<13: try download()
            case 13:
                try replica.execute("EVICT FROM \(name) WHERE _id = \(id)")
                evicted.insert(try key(CollectionName(name), .int(Int64(id))))
            case 14:
                try replica.close()
                replica = try ReplicaTests.open(folder.appendingPathComponent("peer"), environment)
                replica.withhold(withheld.map { CollectionName($0) })
            case 15..<17: try replica.releaseWithheld()
            default:
                if withheld.remove(name) == nil { withheld.insert(name) }
                replica.withhold(withheld.map { CollectionName($0) })
            }
        }

        private mutating func write(_ name: String, _ id: Int) throws {
            let other = name == "c" ? "d" : "c"
            let statements =
                switch random.below(4) {
                case 0: ["UPDATE \(name) APPLY n INCREMENT BY 1 WHERE _id = \(id)"]
                case 1: ["DELETE FROM \(name) WHERE _id = \(id)"]
                case 2:
                    [name, other].map {
                        "INSERT INTO \($0) DOCUMENTS ({'_id': \(id), 'a': 1}) ON ID CONFLICT DO UPDATE"
                    }
                default: ["UPDATE \(name) SET b = \(random.below(5)) WHERE _id = \(id)"]
                }
            let prepared = try statements.map { try PreparedStatement($0) }
            _ = try replica.write { transaction in
                for statement in prepared {
                    _ = try statement.execute(
                        in: transaction, arguments: ObjectValue(),
                        idGenerator: { preconditionFailure("ids are given") })
                }
            }
        }

        /// As a session does: one actor after the other.
        private mutating func upload() throws {
            let secret = try replica.read { transaction in
                try transaction.withDatabase { try Withheld.operations($0) }
            }
            let authors = try Set(secret.map { try OperationHeader.peek($0.bytes).actor })
            for actor in try replica.ownActors() {
                #expect(!authors.contains(actor.actor), "seed \(seed)")
                let pending = try replica.ownOperations(
                    of: actor.actor, after: actor.acknowledged, maxBytes: .max)
                for operation in pending {
                    let decoded = try CRDT.Operation(decoding: operation.bytes)
                    log.append(decoded)
                    let folded = try server.fold(log.items(after: log.head.offset.previous))
                    #expect(folded.first?.changes.count == decoded.changes.count, "seed \(seed)")
                    try replica.acknowledge(decoded.actor, through: decoded.sequence)
                }
            }
        }

        private mutating func download() throws {
            for (key, state) in try server.everything() where random.chance(50) {
                let update = DocumentUpdate(key: key, content: .state(state))
                #expect(try replica.receive(Reception(updates: [update])) == .stored)
            }
        }

        mutating func finish() throws {
            withheld = []
            replica.withhold([])
            try replica.releaseWithheld()
            try upload()
            let theirs = try server.everything()
            for (key, state) in try replica.everything() where !evicted.contains(key) {
                #expect(theirs[key] == state, "seed \(seed) \(key.collection) \(key.id)")
            }
            try replica.close()
            try server.close()
        }
    }
}
