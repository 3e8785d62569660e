import CRDT
import DQL
import Exchange
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

/// Own operations that refer to the documents they inserted: whatever happens to those, what is uploaded is
/// byte for byte what the transaction was.
@Suite("Operations that refer to their documents")
struct ReferringOperationTests {
    private static let text = String(repeating: "x", count: 1_000)

    /// Documents of about a kilobyte, in one transaction.
    @discardableResult
    private func insert(
        _ numbers: ClosedRange<Int>, into replica: PeerReplica, _ collection: CollectionName = "c"
    ) throws -> CRDT.Operation {
        let documents = numbers.map { number in
            Value.object(
                ObjectValue(unique: [
                    (key: "_id", value: .int(Int64(number))), (key: "t", value: .string(Self.text)),
                    (key: "m", value: ["n": .int(Int64(number))]),
                ]))
        }
        let result = try replica.execute(
            "INSERT INTO \(collection) DOCUMENTS (:all)", arguments(("all", .array(documents))))
        return try #require(result.operation)
    }

    /// The positions of the operations that refer to documents.
    private func referring(_ replica: PeerReplica) throws -> [UInt64] {
        try replica.read { transaction in
            let statement = try RawStatement(
                fresh: "SELECT position FROM operation WHERE refers IS NOT NULL ORDER BY position",
                transaction.database)
            var found: [UInt64] = []
            while try statement.step() { found.append(statement.bits(0)) }
            return found
        }
    }

    private func uploads(_ replica: PeerReplica) throws -> [[UInt8]] {
        try replica.ownActors().flatMap { actor in
            try replica.ownOperations(of: actor.actor, after: actor.acknowledged, maxBytes: .max).map(\.bytes)
        }
    }

    @Test("many insertions are written once, and uploaded as what they were, also after the store was closed")
    func sameBytes() throws {
        try withTemporaryDirectory { folder in
            let first = try open(folder)
            let made = try [insert(1...30, into: first), insert(31...60, into: first, "d")]
            #expect(try referring(first) == [1, 2])
            #expect(try uploads(first) == made.map { $0.encoded() })
            #expect(try first.ownActors().map(\.hash) == [hash64(made[1].encoded())])
            #expect(made[0].changes.count == 30)
            try first.close()
            let second = try open(folder, TestEnvironment(seed: 2))
            #expect(try uploads(second) == made.map { $0.encoded() })
            let stored = try second.read { transaction in
                try Int64.fetchOne(
                    transaction.database, sql: "SELECT SUM(LENGTH(bytes) + LENGTH(refers)) FROM operation")
            }
            #expect(try #require(stored) < 200)
            try second.close()
        }
    }

    @Test("a few small insertions are written whole")
    func small() throws {
        try withPeer { replica, _ in
            let made = try insert(1...10, into: replica)
            #expect(try referring(replica) == [])
            #expect(try uploads(replica) == [made.encoded()])
        }
    }

    /// An event that may happen to a document to which an operation refers.
    enum Event: CaseIterable {
        case update, delete, evict, insertAgain, receiveState, receiveDelta, hide, gone, withAnIndex, move
    }

    @Test("an operation is made whole before one of its documents changes", arguments: Event.allCases)
    func beforeAChange(_ event: Event) throws {
        try withPeer { replica, _ in
            let made = try insert(1...30, into: replica)
            let other = try insert(31...60, into: replica)
            let key = try key("c", 7)
            let before = try #require(try replica.state(key))
            #expect(try referring(replica) == [1, 2])
            switch event {
            case .update: try replica.execute("UPDATE c SET m.n = 0 WHERE _id = 7")
            case .delete: try replica.execute("DELETE FROM c WHERE _id = 7")
            case .evict: try replica.execute("EVICT FROM c WHERE _id = 7")
            case .insertAgain:
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 7, 't': 1}) ON ID CONFLICT DO UPDATE")
            case .receiveState:
                let state = try document("s", 1, by: 77, at: 1 << 50).encoded()
                let update = DocumentUpdate(key: key, content: .state(state))
                #expect(try replica.receive(Reception(updates: [update])) == .stored)
            case .receiveDelta:
                let document = try Document(decoding: before)
                let stamp = Stamp(
                    time: try #require(document.vector.greatestTime) + 9, actor: ActorID(77))
                var editor = DocumentEditor(document: document, stamp: stamp)
                try editor.set(["z"], 1)
                let delta = try #require(editor.pending.delta(stamp: stamp))
                let update = DocumentUpdate(key: key, content: .delta(delta.stamp, delta.encoded()))
                #expect(try replica.receive(Reception(updates: [update])) == .stored)
            case .hide: #expect(try replica.receive(Reception(hides: [key])) == .stored)
            case .gone:
                try replica.acknowledge(replica.actor, through: 0)
                let vector = try before.withUnsafeBytes { try DocumentReader($0).vector() }
                let update = DocumentUpdate(key: key, content: .gone(vector.encoded()))
                let answer = Reception(updates: [update], settles: [key])
                #expect(try replica.receive(answer) == .returning([key]))
                try replica.execute("UPDATE c SET m.n = 0 WHERE _id = 7")
            case .move:
                try replica.committing { database, _ in
                    var collections = Collections()
                    let table = try #require(try collections.number(of: "c", database))
                    return (try DocumentRows.move(table, key.id, position: 9, database), nil)
                }
            case .withAnIndex:
                try replica.createIndex("m.n", on: "c")
                try replica.execute("UPDATE c SET m.n = 0 WHERE _id = 7")
            }
            #expect(try event == .move || replica.state(key) != before)
            #expect(try referring(replica) == [2])
            #expect(Array(try uploads(replica).prefix(2)) == [made.encoded(), other.encoded()])
        }
    }

    @Test("what is undone leaves the operation referring, and its bytes what they were")
    func undone() throws {
        struct Stop: Error {}
        try withPeer { replica, _ in
            let made = try insert(1...30, into: replica)
            #expect(throws: Stop.self) {
                _ = try replica.write { transaction in
                    try transaction.edit("c", DocumentID(.int(3))) { $0.delete() }
                    throw Stop()
                }
            }
            #expect(try referring(replica) == [1])
            _ = try replica.write { transaction in
                do {
                    try transaction.atomically {
                        try transaction.edit("c", DocumentID(.int(3))) { $0.delete() }
                        throw Stop()
                    }
                } catch is Stop {}
                try transaction.edit("c", DocumentID(.int(4))) { $0.delete() }
            }
            #expect(try referring(replica) == [])
            #expect(try uploads(replica).first == made.encoded())
        }
    }

    @Test("what an undone part has made whole refers again, also to documents of another collection")
    func undoneElsewhere() throws {
        struct Stop: Error {}
        try withPeer { replica, _ in
            let declared = TypeDeclaration(kind: .map)
            let made = try replica.write { transaction in
                for number in 1...40 {
                    _ = try transaction.insert(
                        number < 20 ? "c" : "d", DocumentID(.int(Int64(number))),
                        ObjectValue(unique: [(key: "t", value: .string(Self.text))]), declared: declared,
                        objectsAreRegisters: false)
                }
            }.operation
            _ = try replica.write { transaction in
                #expect(try transaction.exists("d", DocumentID(.int(20))))
                do {
                    try transaction.atomically {
                        try transaction.edit("c", DocumentID(.int(1))) { try $0.set(["z"], 1) }
                        try transaction.edit("d", DocumentID(.int(20))) { try $0.set(["z"], 1) }
                        throw Stop()
                    }
                } catch is Stop {}
                try transaction.edit("d", DocumentID(.int(20))) { try $0.set(["z"], 1) }
            }
            #expect(try uploads(replica).first == made?.encoded())
            #expect(try referring(replica) == [])
        }
    }

    @Test("in one transaction: changed after it was inserted, evicted, in two collections, beside an update")
    func mixed() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'n': 1})")
            let declared = TypeDeclaration(kind: .map)
            let result = try replica.write { transaction in
                for number in 1...40 {
                    let fields = ObjectValue(unique: [(key: "t", value: .string(Self.text))])
                    _ = try transaction.insert(
                        number % 10 == 0 ? "d" : "c", DocumentID(.int(Int64(number))), fields,
                        declared: declared, objectsAreRegisters: false)
                }
                try transaction.edit("c", DocumentID(.int(0))) { try $0.set(["n"], 2) }
                try transaction.edit("c", DocumentID(.int(5))) { try $0.set(["n"], 5) }
                try transaction.evict("c", [DocumentID(.int(6)), DocumentID(.int(7))])
                _ = try transaction.insert(
                    "c", DocumentID(.int(7)), ObjectValue(unique: [(key: "n", value: 7)]), declared: declared,
                    objectsAreRegisters: false)
            }
            let operation = try #require(result.operation)
            #expect(operation.changes.count == 41)
            #expect(try referring(replica) == [2])
            #expect(try uploads(replica).last == operation.encoded())
            // Elsewhere it makes the same documents; the evicted one is there too.
            try withPeer { other, _ in
                let first = try #require(try uploads(replica).first)
                for bytes in [first, operation.encoded()] {
                    let updates = TestLog.deltas(of: try CRDT.Operation(decoding: bytes))
                    #expect(try other.receive(Reception(updates: updates)) == .stored)
                }
                let here = try replica.everything()
                let there = try other.everything()
                #expect(there.filter { here[$0.key] != nil } == here)
                #expect(there.count == here.count + 1)
            }
        }
    }

    @Test("what is acknowledged is remembered by the hash of its bytes, and refers to nothing any more")
    func acknowledged() throws {
        try withPeer { replica, _ in
            let made = try [insert(1...30, into: replica), insert(31...60, into: replica)]
            try replica.acknowledge(replica.actor, through: 1)
            #expect(try referring(replica) == [2])
            let hash = hash64(made[0].encoded())
            #expect(
                try replica.relation(of: replica.actor, sequence: 1, hash: hash) == .open)
            #expect(
                try replica.relation(of: replica.actor, sequence: 1, hash: ~hash) == .forked)
            try replica.execute("UPDATE c SET z = 1 WHERE _id = 3")
            #expect(try uploads(replica).first == made[1].encoded())
            try replica.acknowledge(replica.actor, through: 2, offset: 5)
            #expect(try replica.wantUnanswered(through: 5).count == 30)
        }
    }

    @Test("a refused one is set aside with all its changes, and those after it are moved")
    func refused() throws {
        try withPeer { replica, _ in
            let made = try [insert(1...30, into: replica), insert(31...60, into: replica)]
            let request = RepairRequest(
                admitted: [replica.actor: 0], closed: [replica.actor],
                refused: [
                    Refusal(
                        actor: replica.actor, sequence: 1, error: SyncError(.writeNotGranted, "no right"))
                ], seen: nil)
            guard case .needs(let keys) = try replica.repair(request) else {
                Issue.record("nothing was asked for")
                return
            }
            #expect(keys.count == 60)
            try replica.stageRepair(keys.map { ($0, nil) })
            guard case .repaired = try replica.repair(request) else {
                Issue.record("not repaired")
                return
            }
            #expect(try replica.refusedWrites().map(\.operation) == [made[0]])
            let moved = try #require(try uploads(replica).first)
            let operation = try CRDT.Operation(decoding: moved)
            #expect(operation.changes.map(\.id) == made[1].changes.map(\.id))
            #expect(operation.origin == made[1].identity)
            #expect(try replica.rows("SELECT * FROM c").count == 30)
        }
    }

    @Test("a document that is not as its operation left it is damage, and no other bytes are uploaded")
    func damaged() throws {
        let changes = [
            "DELETE FROM documents_1 WHERE number = 5",
            "UPDATE documents_1 SET position = 9 WHERE number = 5",
            "UPDATE documents_1 SET state = x'01' WHERE number = 5", "DELETE FROM collection",
            """
            UPDATE documents_1 SET state = (SELECT state FROM documents_1 WHERE number = 6) WHERE number = 5
            """,
            "UPDATE operation SET refers = x'8101'", "UPDATE operation SET refers = x'01'",
        ]
        for change in changes {
            try withPeer { replica, _ in
                try insert(1...30, into: replica)
                try replica.committing { database, _ in
                    (try RawStatement(fresh: change, database).run(), nil)
                }
                #expect(code { _ = try uploads(replica) } == .damaged, "\(change)")
                // The server may have it all the same.
                try replica.acknowledge(replica.actor, through: 1)
                #expect(try uploads(replica) == [])
            }
        }
    }

    @Test("an operation that would be too large is refused as before, and one below the bound is stored")
    func tooLarge() throws {
        try withPeer { replica, _ in
            let huge = Value.string(String(repeating: "y", count: 3 << 20))
            func many(_ count: Int) throws {
                let documents = (0..<count).map {
                    Value.object(
                        ObjectValue(unique: [
                            (key: "_id", value: .int(Int64($0))), (key: "t", value: huge),
                        ]))
                }
                try replica.execute(
                    "INSERT INTO c DOCUMENTS (:all)", arguments(("all", .array(documents))))
            }
            #expect(code { try many(6) } == .transactionTooLarge)
            #expect(try uploads(replica) == [])
            try many(5)
            #expect(try uploads(replica).map(\.count).allSatisfy { $0 > 15 << 20 })
        }
    }

    @Test(
        "random work: at every moment what is to be uploaded is what was written",
        arguments: Depth.cases(fast: 4, deep: 250))
    func random(_ seed: Int) throws {
        try withTemporaryDirectory { folder in
            var random = SplitMix64(seed: UInt64(seed))
            let environment = TestEnvironment(seed: UInt64(seed))
            var replica = try open(folder, environment)
            try replica.createIndex("m.n", on: "c")
            var expected: [[UInt8]] = []
            var next = 1
            for _ in 0..<40 {
                let target = random.below(next)
                switch random.below(12) {
                case 0...3:
                    let count = random.pick([1, 5, 20, 40])
                    let collection = random.pick(["c", "c", "d"])
                    expected.append(
                        try insert(next...(next + count - 1), into: replica, CollectionName(collection))
                            .encoded())
                    next += count
                case 4...6:
                    let result = try replica.execute("UPDATE c SET m.n = 5 WHERE _id <= \(target)")
                    if let operation = result.operation { expected.append(operation.encoded()) }
                case 7:
                    let result = try replica.execute("DELETE FROM d WHERE _id > \(target)")
                    if let operation = result.operation { expected.append(operation.encoded()) }
                case 8:
                    let state = try document("s", 1, by: 77, at: UInt64(1 << 50 + next)).encoded()
                    let update = DocumentUpdate(
                        key: try key("c", .int(Int64(target))), content: .state(state))
                    _ = try replica.receive(Reception(updates: [update]))
                case 9 where !expected.isEmpty:
                    let actor = try #require(try replica.ownActors().last)
                    try replica.acknowledge(actor.actor, through: actor.acknowledged.next)
                    expected.removeFirst()
                case 10:
                    try replica.close()
                    replica = try open(folder, environment)
                default: break
                }
                #expect(try uploads(replica) == expected, "seed \(seed)")
            }
            #expect(try replica.indexFaults() == [])
        }
    }
}
