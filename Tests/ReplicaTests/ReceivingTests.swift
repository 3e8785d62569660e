import CRDT
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Receiving")
struct ReceivingTests {
    /// A writer with two operations on one document, and an empty reader.
    private func withPair(
        _ body: (
            _ first: CRDT.Operation, _ second: CRDT.Operation, _ writer: PeerReplica, _ reader: PeerReplica
        )
            throws -> Void
    ) throws {
        try withTemporaryDirectory { folder in
            let writer = try open(folder.appendingPathComponent("writer"))
            let reader = try open(folder.appendingPathComponent("reader"), TestEnvironment(seed: 2))
            let first = try #require(
                try writer.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})").operation)
            let second = try #require(try writer.execute("UPDATE c SET a = 2, b = 3").operation)
            try body(first, second, writer, reader)
        }
    }

    @Test("a delta without its base changes nothing visible, moves no cursor, and notes the document durably")
    func missingBase() throws {
        try withPair { _, second, writer, reader in
            let log = TestLog()
            let other = DocumentUpdate(
                key: try key("d", 9), content: .state(try document("x", 1, by: 5, at: 10).encoded()))
            let reception = Reception(
                updates: [other] + TestLog.deltas(of: second) + TestLog.deltas(of: second),
                cursors: [(key: [1], position: log.position(2))])
            #expect(try reader.receive(reception) == .wanting([try key("c", 1)]))
            #expect(try reader.everything().isEmpty)
            #expect(try reader.cursor(of: [1]) == nil)
            #expect(reader.head == 0)
            let folder = URL(fileURLWithPath: reader.directory)
            try reader.close()
            let reopened = try open(folder, TestEnvironment(seed: 2))
            #expect(try reopened.wanted(limit: 10) == [try key("c", 1)])

            let state = try #require(try writer.state(try key("c", 1)))
            var again = reception
            again.updates.insert(DocumentUpdate(key: try key("c", 1), content: .state(state)), at: 0)
            again.settles = [try key("c", 1)]
            #expect(try reopened.receive(again) == .stored)
            #expect(try reopened.state(try key("c", 1)) == state)
            #expect(try reopened.cursor(of: [1]) == log.position(2))
            #expect(try reopened.wanted(limit: 10) == [])
            #expect(reopened.head == 1)
        }
    }

    @Test("what was received already is no commit")
    func duplicates() throws {
        try withPair { first, second, writer, reader in
            let updates = TestLog.deltas(of: first) + TestLog.deltas(of: second)
            #expect(try reader.receive(Reception(updates: updates)) == .stored)
            #expect(try reader.receive(Reception(updates: updates)) == .stored)
            let state = DocumentUpdate(
                key: try key("c", 1), content: .state(try #require(try writer.state(try key("c", 1)))))
            #expect(try reader.receive(Reception(updates: [state])) == .stored)
            #expect(reader.head == 1)
            #expect(try reader.everything() == writer.everything())
        }
    }

    @Test("full states of concurrent writers merge to the same bytes in either order")
    func statesMerge() throws {
        try withTemporaryDirectory { folder in
            let id = try key("c", 1)
            let states = [
                try document("a", 1, by: 5, at: 10), try document("a", 2, by: 6, at: 11),
                try document("b", 3, by: 7, at: 12),
            ].map { DocumentUpdate(key: id, content: .state($0.encoded())) }
            let orders = [states, states.reversed(), [states[1], states[0], states[2], states[0]]]
            let results = try orders.enumerated().map { number, order in
                let replica = try open(folder.appendingPathComponent("\(number)"))
                for state in order { #expect(try replica.receive(Reception(updates: [state])) == .stored) }
                #expect(try replica.rows("SELECT a, b FROM c") == ["{\"a\":2,\"b\":3}"])
                return try replica.everything()
            }
            #expect(results[0] == results[1])
            #expect(results[0] == results[2])
        }
    }

    @Test("what does not decode stores nothing of its reception")
    func malformed() throws {
        try withPair { first, _, _, reader in
            let broken = DocumentUpdate(key: try key("c", 2), content: .state([1, 2, 3]))
            #expect(throws: CRDTError.self) {
                try reader.receive(Reception(updates: TestLog.deltas(of: first) + [broken]))
            }
            #expect(throws: CRDTError.self) { try reader.stage([broken], for: [1]) }
            #expect(try reader.everything().isEmpty)
            #expect(try reader.receive(Reception(updates: TestLog.deltas(of: first))) == .stored)
        }
    }

    @Test("a stamp that no clock can follow is refused, staged too, and writing goes on")
    func farFuture() throws {
        try withPeer { replica, _ in
            let far = try document("a", 1, by: 5, at: Timestamp.max - 1)
            let update = DocumentUpdate(key: try key("c", 1), content: .state(far.encoded()))
            #expect(code { _ = try replica.receive(Reception(updates: [update])) } == .clockTooFarAhead)
            #expect(code { try replica.stage([update], for: [1]) } == .clockTooFarAhead)
            #expect(try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").commit == 1)
        }
    }

    @Test("the next stamp exceeds everything received, however slow the own clock is")
    func clockFollows() throws {
        try withPeer { replica, environment in
            let ahead = (environment.milliseconds + 30_000) << 16
            let update = DocumentUpdate(
                key: try key("c", 1), content: .state(try document("a", 1, by: 5, at: ahead).encoded()))
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
            let operation = try #require(try replica.execute("UPDATE c SET a = 2").operation)
            #expect(operation.timestamp > ahead)
            #expect(try replica.rows("SELECT a FROM c") == ["{\"a\":2}"])
        }
    }

    @Test("staged pages are invisible, survive reopening, and appear in one step when they are published")
    func staging() throws {
        try withTemporaryDirectory { folder in
            let log = TestLog()
            let pages = try (0..<3).map { page in
                try (0..<2).map { number in
                    DocumentUpdate(
                        key: try key(CollectionName("c\(page)"), .int(Int64(number))),
                        content: .state(try document("a", .int(Int64(page)), by: 5, at: 10).encoded()))
                }
            }
            let first = try open(folder)
            try first.stage(pages[0], for: [1])
            try first.stage(pages[1], for: [1])
            try first.stage(pages[0], for: [2])
            #expect(try first.everything().isEmpty)
            try first.close()
            let second = try open(folder)
            #expect(try second.everything().isEmpty)
            let end = Reception(
                updates: pages[2], cursors: [(key: [1], position: log.position(7))], publishes: [1])
            #expect(try second.receive(end) == .stored)
            #expect(try second.everything().count == 6)
            #expect(second.head == 1)
            #expect(try second.cursor(of: [1]) == log.position(7))
        }
    }

    @Test("discarded pages never appear; another subscription's stay")
    func discarding() throws {
        try withPeer { replica, _ in
            let log = TestLog()
            for (subscription, id) in [([UInt8(1)], 1), ([2], 2), ([3], 3)] {
                let state = try document("a", 1, by: 5, at: 10).encoded()
                try replica.stage(
                    [DocumentUpdate(key: try key("c", .int(Int64(id))), content: .state(state))],
                    for: subscription)
            }
            try replica.discardStaged(for: [1])
            for subscription in [[UInt8(1)], [2]] {
                let end = Reception(
                    cursors: [(key: subscription, position: log.position(1))], publishes: subscription)
                #expect(try replica.receive(end) == .stored)
            }
            #expect(try replica.rows("SELECT _id FROM c") == ["{\"_id\":2}"])
            try replica.discardStaged()
            #expect(try replica.receive(Reception(publishes: [3])) == .stored)
            #expect(try replica.rows("SELECT _id FROM c") == ["{\"_id\":2}"])
        }
    }
}
