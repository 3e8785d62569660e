import CRDT
import DQL
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Drafts, their append and their fold in one transaction")
struct WriteChainTests {
    /// Writes statements that go together. The log takes the first `most` of their operations.
    private static func write(
        _ replica: Materialization, _ log: inout TestLog, _ statements: [String], taking most: Int = .max,
        whileAppending body: () throws -> Void = {}
    ) throws -> [FoldedOperation] {
        let before = log.head.offset
        let prepared = try statements.map { try PreparedStatement($0) }
        return try replica.write(
            as: ActorID(9), sequence: SequenceNumber(UInt64(log.operations.count) + 1), prepared,
            goesOn: { _ in true }, checking: { _ in },
            appending: { links in
                for operation in links.compactMap({ try? $0.get().operation }).prefix(most) {
                    log.append(operation)
                }
                try body()
                return log.items(after: before)
            }
        ) { statement, transaction, _ -> StatementResult in
            try statement.execute(in: transaction, idGenerator: { preconditionFailure("ids are given") })
        }
    }

    /// Groups whose drafts are kept, and groups whose drafts are undone.
    private static let groups = [
        ["INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1, 'm': {'x': 1}}), ({'_id': 2})"],
        [
            "INSERT INTO d DOCUMENTS ({'_id': 'x', 'l': [1, 2]})", "INSERT INTO c DOCUMENTS ({'_id': 3})",
            "INSERT INTO c DOCUMENTS ({'_id': 3, 'again': true})", "INSERT INTO e DOCUMENTS ({'_id': 1})",
        ],
        ["UPDATE c SET a = 2 WHERE _id = 1", "INSERT INTO c DOCUMENTS ({'_id': 4, 'a': null})"],
        ["UPDATE c SET a = a WHERE _id = 1", "UPDATE c SET b = 1 WHERE _id = 'nobody'"],
        ["INSERT INTO c DOCUMENTS ({'_id': 5}), ({'_id': 1}) ON ID CONFLICT DO NOTHING"],
        ["DELETE FROM c WHERE _id < 3", "INSERT INTO c DOCUMENTS ({'_id': 2, 'back': true})"],
        ["INSERT INTO c DOCUMENTS ({'_id': 6}), ({'_id': 7})", "INSERT INTO c SELECT 8 AS _id FROM d"],
    ]

    private static func expect(_ one: Materialization, isAs other: Materialization) throws {
        #expect(try one.everything() == other.everything())
        #expect(try one.checkpoint() == other.checkpoint())
        #expect(try one.read { try $0.frontier() } == other.read { try $0.frontier() })
        #expect(try one.indexFaults() == [])
    }

    @Test("documents, checkpoint, frontier and what listeners hear are those of a fold of the log")
    func asFolded() throws {
        try withTemporaryDirectory { folder in
            let written = try openFold(folder.appendingPathComponent("written"))
            let folded = try openFold(folder.appendingPathComponent("folded"))
            var log = TestLog()
            for group in Self.groups {
                let before = log.head.offset
                let told = try Self.write(written, &log, group)
                #expect(told.map { "\($0)" } == (try folded.fold(log.items(after: before))).map { "\($0)" })
                try Self.expect(written, isAs: folded)
            }
            #expect(log.operations.count > 10)
        }
    }

    @Test(
        "nothing is left of drafts that the log did not take, and the next ones may follow",
        arguments: [0, 1, 2])
    func untaken(most: Int) throws {
        try withTemporaryDirectory { folder in
            let written = try openFold(folder.appendingPathComponent("written"))
            let folded = try openFold(folder.appendingPathComponent("folded"))
            var log = TestLog()
            let inserts = (1...3).map { "INSERT INTO c\($0) DOCUMENTS ({'_id': \($0)})" }
            #expect(try Self.write(written, &log, inserts, taking: most).count == most)
            #expect(log.operations.count == most)
            _ = try folded.fold(log.items())
            try Self.expect(written, isAs: folded)
            let again = try Self.write(written, &log, Array(inserts.dropFirst(most)))
            #expect(again.count == 3 - most)
            _ = try folded.fold(log.items(after: Offset(UInt64(most))))
            try Self.expect(written, isAs: folded)
        }
    }

    @Test("a crash after the append leaves the state before it, from which the log is folded")
    func crash() throws {
        for group in Self.groups[1...2] {
            try withTemporaryDirectory { folder in
                let written = try openFold(folder.appendingPathComponent("written"))
                let place = folder.appendingPathComponent("crashed")
                var log = TestLog()
                _ = try Self.write(written, &log, Self.groups[0])
                _ = try Self.write(written, &log, group) {
                    try FileManager.default.copyItem(at: URL(fileURLWithPath: written.directory), to: place)
                }
                let crashed = try openFold(place)
                #expect(try crashed.checkpoint() == log.position(1))
                _ = try crashed.fold(log.items(after: 1))
                try Self.expect(crashed, isAs: written)
                try crashed.close()
            }
        }
    }

    @Test("an error of the append undoes the drafts")
    func failedAppend() throws {
        struct Refused: Error {}
        try withTemporaryDirectory { folder in
            let written = try openFold(folder.appendingPathComponent("written"))
            var log = TestLog()
            _ = try Self.write(written, &log, Self.groups[0])
            let before = try written.everything()
            var other = log
            #expect(throws: Refused.self) {
                _ = try Self.write(written, &other, Self.groups[1]) { throw Refused() }
            }
            #expect(try written.everything() == before)
            #expect(try written.checkpoint() == log.head)
            _ = try Self.write(written, &log, Self.groups[1])
            #expect(try written.checkpoint() == log.position(4))
        }
    }
}
