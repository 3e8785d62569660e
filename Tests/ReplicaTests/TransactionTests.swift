import CRDT
import DQL
import Exchange
import Synchronization
import TestSupport
import Testing

@testable import Replica

@Suite("Write transactions", .timeLimit(.minutes(5)))
struct TransactionTests {
    @Test(
        "a transaction becomes one operation with one stamp, one delta per document, in order of first touch"
    )
    func oneOperation() throws {
        try withPeer { replica, _ in
            let insert = try PreparedStatement(
                "INSERT INTO b DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 1})")
            let other = try PreparedStatement("INSERT INTO a DOCUMENTS ({'_id': 3})")
            let update = try PreparedStatement("UPDATE b SET n = n + 1, m.k = n")
            let result = try replica.write { transaction in
                for statement in [insert, other, update, update] {
                    _ = try statement.execute(
                        in: transaction, idGenerator: { preconditionFailure("ids are given") })
                }
                return try update.execute(
                    in: transaction, idGenerator: { preconditionFailure("ids are given") })
            }
            let operation = try #require(result.operation)
            #expect(result.commit == 1)
            #expect(operation.changes.map(\.collection) == ["b", "b", "a"])
            #expect(operation.sequence == 1)
            #expect(try replica.rows("SELECT n, m FROM b WHERE _id = 1") == ["{\"m\":{\"k\":3},\"n\":4}"])
            let vector = try Document(decoding: try #require(try replica.state(try key("b", 1)))).vector
            #expect(vector.entries == [.init(actor: operation.actor, time: operation.timestamp)])
        }
    }

    @Test("the operation alone makes the same documents elsewhere")
    func sameElsewhere() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            let reader = try open(folder.appendingPathComponent("reader"), TestEnvironment(seed: 2))
            for statement in [
                "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': {'x': 1, 'y': [1, {'z': null}]}}), ({'_id': 2})",
                "UPDATE c SET a.x = 2, b = 'two' UNSET a.y WHERE _id = 1", "DELETE FROM c WHERE _id = 2",
            ] {
                let operation = try #require(try writer.execute(statement).operation)
                #expect(try reader.receive(Reception(updates: TestLog.deltas(of: operation))) == .stored)
            }
            #expect(try reader.everything() == writer.everything())
        }
    }

    @Test("an error rolls everything back: documents, head, sequence, clock; the stamp is drawn again")
    func rollback() throws {
        struct Stop: Error {}
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let before = try replica.everything()
            let insert = try PreparedStatement("INSERT INTO d DOCUMENTS ({'_id': 2})")
            #expect(throws: Stop.self) {
                try replica.write { transaction in
                    _ = try insert.execute(
                        in: transaction, idGenerator: { preconditionFailure("ids are given") })
                    throw Stop()
                }
            }
            #expect(replica.head == 1)
            #expect(try replica.everything() == before)
            #expect(try replica.read { try $0.collectionNames() } == ["c"])
            #expect(try replica.ownActors().map(\.sequence) == [1])
            let next = try replica.execute("INSERT INTO d DOCUMENTS ({'_id': 2})")
            #expect(next.operation?.sequence == 2)
            #expect(next.commit == 2)
        }
    }

    @Test("a statement that fails after its first document leaves none")
    func failingStatement() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            #expect(throws: DQLError.self) {
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2}) ON ID CONFLICT FAIL")
            }
            #expect(throws: DQLError.self) { try replica.execute("UPDATE c SET a = :missing") }
            #expect(try replica.rows("SELECT * FROM c") == ["{\"_id\":2}"])
            #expect(replica.head == 1)
        }
    }

    @Test("what changes nothing makes no operation and no commit")
    func nothing() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            for statement in ["UPDATE c SET a = 1 WHERE _id = 9", "UPDATE c UNSET nothing", "DELETE FROM d"] {
                let result = try replica.execute(statement)
                #expect(result.operation == nil)
                #expect(result.commit == 1)
            }
        }
    }

    @Test("listeners hear of every commit once, in the order of commits, whatever thread wrote")
    func listeners() async throws {
        try await withTemporaryDirectory { folder in
            let replica = try open(folder)
            let heard = HeardCommits()
            let listener = replica.addListener { heard.append($0.number) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<8 {
                    group.addTask {
                        for number in 0..<10 {
                            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(writer * 100 + number)})")
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(heard.numbers == Array(1...80))
            replica.removeListener(listener)
            try replica.execute("DELETE FROM c")
            #expect(heard.numbers.count == 80)
        }
    }
}

/// Collects commit numbers from any thread.
private final class HeardCommits: Sendable {
    private let state = Mutex<[UInt64]>([])
    var numbers: [UInt64] { state.withLock { $0 } }
    func append(_ number: UInt64) { state.withLock { $0.append(number) } }
}
