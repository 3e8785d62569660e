import CRDT
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Folding a reaping")
struct ReapingTests {
    private func reaping(_ keys: [(DocumentKey, VersionVector)], sequence: SequenceNumber = 1)
        -> CRDT.Operation
    {
        CRDT.Operation(
            actor: ActorID(0xFEED), sequence: sequence, timestamp: 1 << 60,
            changes: keys.map {
                .init(collection: $0.0.collection, id: $0.0.id, delta: ReapingChange.encode(at: $0.1))
            })
    }

    private func vector(_ key: DocumentKey, _ replica: some Replica) throws -> VersionVector {
        try Document(decoding: try #require(try replica.state(key))).vector
    }

    @Test("a reaped tombstone is gone from every fold, a document that was written since is not")
    func reaped() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            for statement in [
                "INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})", "DELETE FROM c",
                "INSERT INTO c DOCUMENTS ({'_id': 2})",
            ] {
                log.append(try #require(try writer.execute(statement).operation))
            }
            let fold = try openFold(folder.appendingPathComponent("one"))
            let (one, two) = (try key("c", 1), try key("c", 2))
            _ = try fold.fold(Array(log.items().prefix(2)))
            let reaped = reaping([(one, try vector(one, fold)), (two, try vector(two, fold))])
            log.append(reaped)
            #expect(try fold.reapFloor() == 0)
            let told = try fold.fold(log.items(after: 2))
            #expect(told.map { $0.changes.filter { $0.gone != nil }.map(\.key) } == [[], [one]])
            #expect(told[1].changes.count == 1)
            #expect(try fold.reapFloor() == 2)
            #expect(try fold.state(one) == nil)
            #expect(try fold.rows("SELECT _id FROM c") == ["{\"_id\":2}"])
            let other = try openFold(folder.appendingPathComponent("two"))
            for item in log.items() { _ = try other.fold([item]) }
            #expect(try other.everything() == fold.everything())
            #expect(try other.reapFloor() == 2)
            #expect(try other.read { try $0.frontier() } == fold.read { try $0.frontier() })
        }
    }

    @Test("a reaping that takes nothing moves no floor")
    func nothing() throws {
        try withTemporaryDirectory { folder in
            let fold = try openFold(folder)
            var log = TestLog()
            let vector = VersionVector([.init(actor: ActorID(1), time: 1)])
            log.append(reaping([(try key("c", 1), vector)]))
            #expect(try fold.fold(log.items()).map(\.changes.isEmpty) == [true])
            #expect(try fold.reapFloor() == 0)
        }
    }

    @Test("a materialization knows the frontier of what it has folded, after it was opened again too")
    func frontier() throws {
        try withTemporaryDirectory { folder in
            let environment = TestEnvironment()
            let writer = try open(folder.appendingPathComponent("writer"), environment)
            var log = TestLog()
            for number in 1...3 {
                environment.milliseconds += 5
                log.append(
                    try #require(try writer.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})").operation)
                )
            }
            let last = log.operations[2]
            log.append(RefusalRecord.operation(actor: last.actor, sequence: 4, after: last.timestamp))
            let place = folder.appendingPathComponent("fold")
            let fold = try openFold(place)
            _ = try fold.fold(log.items())
            try fold.close()
            let again = try openFold(place)
            let expected = ActorProgress(actor: last.actor, sequence: 4, timestamp: last.timestamp)
            #expect(try again.read { try $0.frontier(of: [last.actor, ActorID(5)]) } == [expected])
            #expect(try again.read { try $0.frontier() } == [expected])
        }
    }

    @Test("a materialization of an older format is refused as damaged, so that it is built anew")
    func olderFormat() throws {
        try withTemporaryDirectory { folder in
            let fold = try openFold(folder)
            var log = TestLog()
            log.append(reaping([(try key("c", 1), VersionVector([.init(actor: ActorID(1), time: 1)]))]))
            _ = try fold.fold(log.items())
            try fold.store.writing { database in
                try database.execute(sql: "PRAGMA user_version = \(Schema.oldestFormat - 1)")
            }
            try fold.close()
            #expect(code { _ = try openFold(folder) } == .damaged)
        }
    }
}
