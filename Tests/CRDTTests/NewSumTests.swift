import Testing

@testable import CRDT

/// Counters that begin a new sum after a RESTART or a removal.
@Suite("New sums")
struct NewSumTests {
    /// One actor's steps, each a transaction of its own.
    private func counter(_ steps: [(inout DocumentEditor) throws -> Void]) throws -> Document {
        var document = Document()
        for (number, step) in steps.enumerated() {
            document = try edited(document, at: Timestamp(10 * (number + 1)), by: 1, step)
        }
        return document
    }

    @Test("after a RESTART a small increment is not lost beside a large one before it")
    func small() throws {
        let large = Value.double(3e18)
        let document = try counter([
            { try $0.increment(["n"], by: large) }, { try $0.restart(["n"]) },
            { try $0.increment(["n"], by: 4) },
            { try $0.increment(["n"], by: 3) },
        ])
        #expect(document.value["n"] == .int(7))
        #expect(try Document(decoding: document.encoded()) == document)
    }

    @Test("a RESTART and an increment in one transaction begin a new sum too")
    func oneTransaction() throws {
        let document = try counter([
            { try $0.increment(["n"], by: .double(0.1)) },
            {
                try $0.restart(["n"], with: 5)
                try $0.increment(["n"], by: .double(0.2))
            },
        ])
        #expect(document.value["n"] == .double(5.2))
    }

    @Test("an UNSET counter begins again at zero")
    func unset() throws {
        let document = try counter([
            { try $0.increment(["n"], by: .double(1e300)) }, { try $0.unset(["n"]) },
            { try $0.increment(["n"], by: .double(0.25)) },
        ])
        #expect(document.value["n"] == .double(0.25))
    }

    @Test("a RESTART that its author's next increment had not seen takes only what came before")
    func concurrent() throws {
        let start = try counter([{ try $0.increment(["n"], by: .double(8)) }])
        let restarted = try edited(start, at: 20, by: 2) { try $0.restart(["n"]) }
        let more = try edited(start, at: 21, by: 1) { try $0.increment(["n"], by: .double(0.5)) }
        #expect(more.merged(restarted).value["n"] == .double(0.5))
        #expect(more.merged(restarted) == restarted.merged(more))
        let again = try edited(more.merged(restarted), at: 30, by: 1) { try $0.increment(["n"], by: 1) }
        #expect(again.value["n"] == .double(1.5))
    }

    @Test("a RESTART within a new sum takes what it saw of it, and nothing that follows")
    func restartWithin() throws {
        let first = try counter([
            { try $0.increment(["n"], by: .double(1e16)) }, { try $0.restart(["n"]) },
            { try $0.increment(["n"], by: .double(2.5)) },
        ])
        let restarted = try edited(first, at: 50, by: 2) { try $0.restart(["n"]) }
        let more = try edited(first, at: 51, by: 1) { try $0.increment(["n"], by: .double(0.25)) }
        let both = more.merged(restarted)
        #expect(both.value["n"] == .double(0.25))
        #expect(both == restarted.merged(more))
        #expect(try Document(decoding: both.encoded()) == both)
    }

    @Test("the delta of a new sum gives the author's state wherever its base is covered")
    func delta() throws {
        let start = try counter([{ try $0.increment(["n"], by: .double(1e17)) }, { try $0.restart(["n"]) }])
        var editor = DocumentEditor(document: start, stamp: Stamp(time: 30, actor: ActorID(1)))
        try editor.increment(["n"], by: 1)
        let delta = try #require(editor.pending.delta(stamp: editor.stamp))
        let decoded = try Delta(decoding: delta.encoded(), stamp: delta.stamp)
        #expect(decoded == delta)
        let elsewhere = try edited(start, at: 25, by: 2) { try $0.restart(["n"], with: 9) }
        #expect(start.applied(decoded) == editor.document)
        #expect(elsewhere.applied(decoded).value["n"] == .int(10))
        #expect(elsewhere.applied(decoded) == elsewhere.merged(editor.document))
    }

    @Test("counters of integers are written as before")
    func integers() throws {
        let document = try counter([
            { try $0.increment(["n"], by: 5) }, { try $0.restart(["n"]) }, { try $0.increment(["n"], by: 2) },
        ])
        let entry = document.root["n"]?.counter?[ActorID(1)]
        #expect(entry?.point.total == 7 && entry?.point.since == nil)
        #expect(document.value["n"] == 2)
    }
}
