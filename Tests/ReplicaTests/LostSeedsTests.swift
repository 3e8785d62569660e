import CRDT
import DQL
import Exchange
import Testing

@testable import Replica

/// Seeds that are gone here, under the vector that they have where they live: is what comes from before they
/// were reaped, or has a restored log lost that? Only the server can say.
@Suite("Seeds that were reaped here and live at the server")
struct LostSeedsTests {
    /// Runs `body` with a peer that knows of the reaping, the living document, and how it comes as a state.
    private func withRest(
        _ body: (PeerReplica, _ living: Document, _ state: (Document) -> DocumentUpdate) throws -> Void
    ) throws {
        try withPeer { replica, _ in
            let one = try key("c", 1)
            try replica.execute("INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'a': 1})")
            let living = try Document(decoding: try #require(try replica.state(one)))
            try replica.acknowledge(replica.actor, through: 1)
            let rest = try #require(Document(restOf: living.vector)).encoded()
            let reaped = DocumentUpdate(key: one, content: .state(rest))
            let seen = Reception(updates: [reaped], seen: TestLog().position(9))
            #expect(try replica.receive(seen) == .stored)
            #expect(try replica.state(one) == rest)
            try body(replica, living) { DocumentUpdate(key: one, content: .state($0.encoded())) }
        }
    }

    @Test("the server is asked, and its answer is shown", arguments: [false, true])
    func restored(_ isWritten: Bool) throws {
        try withRest { replica, living, state in
            var living = living
            if isWritten { living.merge(try document("b", 2, by: 5, at: 10)) }
            #expect(try replica.receive(Reception(updates: [state(living)])) == .stored)
            // What came may be older than the reaping.
            #expect(try replica.rows("SELECT a, b FROM c") == (isWritten ? ["{\"b\":2}"] : []))
            let one = try key("c", 1)
            #expect(try replica.wanted(limit: 9) == [one])
            var answer = Reception(updates: [state(living)], settles: [one])
            let log = TestLog()
            // Neither is one that nobody knows the time of the last word, nor one from before what was seen.
            for position in [nil, log.position(8)] {
                answer.answeredAt = position
                #expect(try replica.receive(answer) == .stored)
                #expect(try replica.state(one) != living.encoded())
                #expect(try replica.wanted(limit: 9) == [one])
            }
            answer.answeredAt = log.position(9)
            #expect(try replica.receive(answer) == .stored)
            #expect(try replica.state(one) == living.encoded())
            #expect(try replica.wanted(limit: 9).isEmpty)
        }
    }

    @Test("where the server has them reaped too, that is the answer, and nothing is asked again")
    func reaped() throws {
        try withRest { replica, living, state in
            let one = try key("c", 1)
            _ = try replica.receive(Reception(updates: [state(living)]))
            let rest = try #require(Document(restOf: living.vector))
            var answer = Reception(updates: [state(rest)], settles: [one])
            answer.answeredAt = TestLog().position(12)
            #expect(try replica.receive(answer) == .stored)
            #expect(try replica.rows("SELECT a FROM c").isEmpty)
            #expect(try replica.wanted(limit: 9).isEmpty)
            // Nor is one of which nothing but a later write came.
            var later = rest
            later.merge(try document("b", 2, by: 5, at: 10))
            _ = try replica.receive(Reception(updates: [state(later)]))
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"b\":2}"])
            #expect(try replica.wanted(limit: 9).isEmpty)
        }
    }

    @Test("a write onto what is left of them waits for the answer that knows it", arguments: [false, true])
    func writtenHere(_ isWrittenThere: Bool) throws {
        try withRest { replica, living, state in
            let one = try key("c", 1)
            var living = living
            if isWrittenThere {
                living.merge(try document("d", 4, by: 5, at: 10))
                _ = try replica.receive(Reception(updates: [state(living)]))
            }
            let statement =
                isWrittenThere
                ? "UPDATE c SET b = 2 WHERE _id = 1" : "INSERT INTO c DOCUMENTS ({'_id': 1, 'b': 2})"
            let written = try #require(try replica.execute(statement).operation)
            var answer = Reception(updates: [state(living)], settles: [one])
            answer.answeredAt = TestLog().position(12)
            for reception in [Reception(updates: [state(living)]), answer] {
                _ = try replica.receive(reception)
                #expect(try replica.wanted(limit: 9) == [one])
                #expect(try replica.rows("SELECT a, b FROM c") == ["{\"b\":2}"])
            }
            try replica.acknowledge(written.actor, through: written.sequence)
            answer.updates = [state(try self.written(written, onto: living))]
            #expect(try replica.receive(answer) == .stored)
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"a\":1,\"b\":2}"])
            #expect(try replica.wanted(limit: 9).isEmpty)
        }
    }

    @Test("an answer from before what another wrote is not the last word")
    func answeredLate() throws {
        try withRest { replica, living, state in
            let one = try key("c", 1)
            var later = living
            later.merge(try document("d", 4, by: 5, at: 10))
            _ = try replica.receive(Reception(updates: [state(later)], seen: TestLog().position(10)))
            var answer = Reception(updates: [state(living)], settles: [one])
            answer.answeredAt = TestLog().position(9)
            _ = try replica.receive(answer)
            #expect(try replica.wanted(limit: 9) == [one])
        }
    }

    @Test("where no state comes, it is the write that asks")
    func unsubscribed() throws {
        try withRest { replica, living, state in
            let one = try key("c", 1)
            let written = try #require(
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'b': 2})").operation)
            #expect(try replica.wanted(limit: 9) == [one])
            try replica.acknowledge(written.actor, through: written.sequence)
            var answer = Reception(
                updates: [state(try self.written(written, onto: living))], settles: [one])
            answer.answeredAt = TestLog().position(12)
            #expect(try replica.receive(answer) == .stored)
            #expect(try replica.rows("SELECT a, b FROM c") == ["{\"a\":1,\"b\":2}"])
            #expect(try replica.wanted(limit: 9).isEmpty)
        }
    }

    /// As the server has it: the write, and the seeds that it rests on.
    private func written(_ operation: CRDT.Operation, onto living: Document) throws -> Document {
        var there = living
        let delta = try #require(operation.changes.first?.delta)
        #expect(there.apply(try Delta(decoding: delta, stamp: operation.stamp)) == .applied)
        return there
    }
}
