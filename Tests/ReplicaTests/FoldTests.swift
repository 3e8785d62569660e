import CRDT
import DQL
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Folding a log")
struct FoldTests {
    @Test("what one fold holds in memory is bounded, however small the operations; the rest waits its turn")
    func boundedMemory() throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            let text = String(repeating: "x", count: 900_000)
            let insert = "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0, 't': '\(text)'})"
            log.append(try #require(try writer.execute(insert).operation))
            for number in 1...60 {
                let update = "UPDATE c SET n = \(number) WHERE _id = 1"
                log.append(try #require(try writer.execute(update).operation))
            }
            let fold = try openFold(folder.appendingPathComponent("fold"))
            var rest = log.items()[...]
            var turns = 0
            while !rest.isEmpty {
                let folded = try fold.fold(Array(rest))
                let bytes = folded.flatMap(\.changes).reduce(0) {
                    $0 + ($1.before?.count ?? 0) + $1.after.count
                }
                #expect(bytes <= 32 << 20)
                let last = try #require(folded.last)
                #expect(try fold.checkpoint() == last.position)
                rest = rest.dropFirst(folded.count)
                turns += 1
            }
            #expect((3...60).contains(turns))
            #expect(try fold.checkpoint() == log.head)
            #expect(try fold.everything() == writer.everything())
        }
    }

    private static let statements = [
        "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1, 'm': {'x': 1}}), ({'_id': 2})",
        "UPDATE c SET a = 2 WHERE _id = 1", "INSERT INTO d DOCUMENTS ({'_id': 'x'})",
        "UPDATE c SET m.y = 2 UNSET a WHERE _id = 1", "DELETE FROM c WHERE _id = 2", "UPDATE c SET b = 1",
    ]

    /// The log that a peer's statements make, and the peer's documents.
    private func withLog(_ body: (URL, TestLog, [DocumentKey: EncodedState]) throws -> Void) throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            var log = TestLog()
            for statement in Self.statements {
                log.append(try #require(try writer.execute(statement).operation))
            }
            try body(folder, log, try writer.everything())
        }
    }

    @Test("every operation is folded exactly once, whatever the batches and wherever the store is reopened")
    func exactlyOnce() throws {
        try withLog { folder, log, expected in
            for size in 1...log.operations.count {
                let place = folder.appendingPathComponent("fold-\(size)")
                var folded: [Offset] = []
                while folded.count < log.operations.count {
                    let replica = try openFold(place)
                    let checkpoint = try replica.checkpoint()?.offset ?? 0
                    #expect(checkpoint.rawValue == UInt64(folded.count))
                    folded += try replica.fold(Array(log.items(after: checkpoint).prefix(size))).map(
                        \.position.offset)
                    try replica.close()
                }
                #expect(folded.map(\.rawValue) == Array(1...UInt64(log.operations.count)))
                let replica = try openFold(place)
                #expect(try replica.checkpoint() == log.head)
                #expect(try replica.everything() == expected)
                #expect(replica.head == log.head.offset.rawValue)
            }
        }
    }

    @Test("a batch that fails in its middle leaves no part of itself")
    func allOrNothing() throws {
        try withLog { folder, log, _ in
            let replica = try openFold(folder.appendingPathComponent("fold"))
            let good = log.items()
            let broken = Materialization.LogItem(position: log.position(3), bytes: [9, 9, 9])
            #expect(code { _ = try replica.fold([good[0], good[1], broken]) } == .brokenLog)
            #expect(try replica.checkpoint() == nil)
            #expect(try replica.everything().isEmpty)
            #expect(try replica.fold(good).count == good.count)
        }
    }

    @Test("a change whose base the log does not have is void, in every fold")
    func voidChange() throws {
        try withLog { folder, log, _ in
            let items = log.items()
            let misplaced = Materialization.LogItem(position: log.position(1), bytes: items[1].bytes)
            let folds = try ["one", "two"].map { name in
                let replica = try openFold(folder.appendingPathComponent(name))
                #expect(try replica.fold([misplaced]).map(\.changes.count) == [0])
                #expect(try replica.checkpoint() == log.position(1))
                return try replica.everything()
            }
            #expect(folds[0].isEmpty && folds[1].isEmpty)
        }
    }

    @Test("a gap, a repetition and another log are a broken log")
    func brokenLog() throws {
        try withLog { folder, log, _ in
            let replica = try openFold(folder.appendingPathComponent("fold"))
            let items = log.items()
            func item(_ index: Int, at position: LogPosition) -> Materialization.LogItem {
                Materialization.LogItem(position: position, bytes: items[index].bytes)
            }
            #expect(code { _ = try replica.fold([items[1]]) } == .brokenLog)
            #expect(try replica.fold([items[0]]).count == 1)
            #expect(code { _ = try replica.fold([items[0]]) } == .brokenLog)
            #expect(code { _ = try replica.fold([items[2]]) } == .brokenLog)
            #expect(code { _ = try replica.fold([item(1, at: TestLog(9).position(2))]) } == .brokenLog)
            #expect(try replica.checkpoint() == log.position(1))
        }
    }

    @Test("each change tells the state before and after it, and the delta in between")
    func states() throws {
        try withLog { folder, log, expected in
            let replica = try openFold(folder.appendingPathComponent("fold"))
            let folded = try replica.fold(log.items())
            var states: [DocumentKey: EncodedState] = [:]
            for operation in folded {
                for change in operation.changes {
                    #expect(change.before == states[change.key])
                    var document = try change.before.map { try Document(decoding: $0) } ?? Document()
                    #expect(
                        document.apply(try Delta(decoding: change.delta ?? [], stamp: operation.stamp))
                            == .applied)
                    #expect(document.encoded() == change.after)
                    states[change.key] = change.after
                }
            }
            #expect(states == expected)
            #expect(folded.map(\.sequence) == Array(1...6))
        }
    }

    @Test("catch-up visits what changed after an offset in the order of the last change, tombstones included")
    func changes() throws {
        try withLog { folder, log, _ in
            let replica = try openFold(folder.appendingPathComponent("fold"))
            _ = try replica.fold(log.items())
            func positions(after offset: Offset, atMost: Int = .max) throws -> [UInt64] {
                try replica.read { transaction in
                    var found: [UInt64] = []
                    try transaction.changes(in: "c", after: offset.rawValue) { document in
                        found.append(document.position)
                        return found.count < atMost
                    }
                    return found
                }
            }
            #expect(try positions(after: 0) == [5, 6])
            #expect(try positions(after: 5) == [6])
            #expect(try positions(after: 6) == [])
            #expect(try positions(after: 0, atMost: 1) == [5])
        }
    }

    @Test("a draft sees the documents, returns the operation it would be, and leaves nothing behind")
    func draft() throws {
        try withLog { folder, log, expected in
            let replica = try openFold(folder.appendingPathComponent("fold"))
            _ = try replica.fold(log.items())
            let update = try PreparedStatement("UPDATE c SET a = 7, new.field = 1 WHERE _id = 1")
            let insert = try PreparedStatement("INSERT INTO fresh DOCUMENTS ({'_id': 1})")
            func draft(_ statement: PreparedStatement) throws -> CRDT.Operation? {
                let drafted = try replica.draft(as: ActorID(77), sequence: 4) {
                    transaction -> StatementResult in
                    try statement.execute(
                        in: transaction, idGenerator: { preconditionFailure("ids are given") })
                }
                return drafted.operation
            }
            let drafted = try #require(try draft(update))
            #expect(drafted.actor == ActorID(77))
            #expect(drafted.sequence == 4)
            #expect(drafted.timestamp > log.operations[5].timestamp)
            #expect(try draft(try PreparedStatement("UPDATE c SET a = 1 WHERE _id = 'nobody'")) == nil)
            _ = try draft(insert)
            let failing = try PreparedStatement(
                "INSERT INTO fresh DOCUMENTS ({'_id': 1}), ({'_id': :missing})")
            #expect(throws: DQLError.self) { try draft(failing) }
            #expect(try replica.everything() == expected)
            #expect(try replica.checkpoint() == log.head)
            #expect(try replica.read { try $0.collectionNames() } == ["c", "d"])
            var longer = log
            longer.append(drafted)
            _ = try replica.fold(longer.items(after: 6))
            #expect(try replica.rows("SELECT a FROM c WHERE _id = 1") == ["{\"a\":7}"])
        }
    }
}
