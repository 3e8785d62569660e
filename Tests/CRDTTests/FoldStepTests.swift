import Testing

@testable import CRDT

@Suite("The step of a fold")
struct FoldStepTests {
    private func live() throws -> Document {
        try edited(at: 10, by: 1) {
            $0.create()
            try $0.set(["a"], 1)
        }
    }

    private func deleted() throws -> Document { try edited(try live(), at: 20, by: 2) { $0.delete() } }

    private func reap(_ vector: VersionVector, _ state: Document?) throws -> Fold.Outcome {
        try Fold.step(.reaping(at: vector), on: state?.encoded())
    }

    @Test("a delta applies, is a duplicate, or is void without its base")
    func deltas() throws {
        let second = try delta(on: try live(), at: 20, by: 2) { try $0.set(["a"], 2) }
        let changed = try live().applied(second)
        #expect(
            try Fold.step(.delta(second), on: try live().encoded())
                == .changed(state: changed.encoded(), isLive: true))
        #expect(try Fold.step(.delta(second), on: changed.encoded()) == .duplicate)
        #expect(try Fold.step(.delta(second), on: nil) == .void(.baseMissing))
        let removal = try delta(on: changed, at: 30, by: 1) { $0.delete() }
        let removed = changed.applied(removal)
        #expect(
            try Fold.step(.delta(removal), on: changed.encoded())
                == .changed(state: removed.encoded(), isLive: false))
    }

    @Test("a full state merges, whether the document is there or not")
    func states() throws {
        let other = try edited(at: 15, by: 3) { try $0.set(["b"], 1) }
        let merged = try live().merged(other)
        #expect(
            try Fold.step(.state(other), on: try live().encoded())
                == .changed(state: merged.encoded(), isLive: true))
        #expect(
            try Fold.step(.state(other), on: nil) == .changed(state: other.encoded(), isLive: true))
        #expect(try Fold.step(.state(other), on: merged.encoded()) == .duplicate)
    }

    @Test("a reaping takes the tombstone that it names, and nothing else")
    func reaping() throws {
        let tombstone = try deleted()
        #expect(try reap(tombstone.vector, tombstone) == .reaped(rest: nil))
        let rewritten = try edited(tombstone, at: 30, by: 1) { $0.create() }
        #expect(try reap(tombstone.vector, rewritten) == .void(.noSuchTombstone))
        #expect(try reap(rewritten.vector, rewritten) == .void(.noSuchTombstone))
        let deletedAgain = try edited(rewritten, at: 40, by: 1) { $0.delete() }
        #expect(try reap(tombstone.vector, deletedAgain) == .void(.noSuchTombstone))
        #expect(try reap(tombstone.vector, nil) == .void(.noSuchTombstone))
    }

    @Test("a reaped seed leaves its part of the vector, and that is not reaped again")
    func seeds() throws {
        let seeded = try edited(at: 10, by: 1) { _ = try $0.seed(object(["a": 1])) }
        let tombstone = try edited(seeded, at: 20, by: 2) { $0.delete() }
        let rest = try #require(tombstone.reaped())
        #expect(try reap(tombstone.vector, tombstone) == .reaped(rest: rest.encoded()))
        #expect(try reap(rest.vector, rest) == .void(.noSuchTombstone))
        #expect(!rest.isReapable && tombstone.isReapable)
        let again = try delta(on: Document(), at: 30, by: 3) { _ = try $0.seed(object(["a": 1])) }
        #expect(try Fold.step(.delta(again), on: rest.encoded()) == .duplicate)
    }

    @Test("the three forms of a change are told apart by their first byte, and bring their clocks")
    func forms() throws {
        let stamp = Stamp(time: 20, actor: ActorID(2))
        let delta = try delta(on: try live(), at: 20, by: 2) { $0.delete() }
        let state = try live()
        func decoded(_ bytes: [UInt8]) throws -> LoggedChange {
            try LoggedChange(decoding: EncodedDelta(bytes), stamp: stamp)
        }
        #expect(try decoded(delta.encoded().bytes) == .delta(delta))
        #expect(try decoded(StateChange.encode(state.encoded()).bytes) == .state(state))
        #expect(try decoded(ReapingChange.encode(at: state.vector).bytes) == .reaping(at: state.vector))
        #expect(errorCode { _ = try decoded(ReapingChange.encode(at: VersionVector()).bytes) } == .malformed)
        #expect(errorCode { _ = try decoded([]) } == .truncated)
        #expect(errorCode { _ = try decoded([0x54]) } == .unsupportedVersion)
        let operation = Operation(
            actor: ActorID(9), sequence: 1, timestamp: 3,
            changes: [
                .init(collection: "c", id: try DocumentID(1), delta: StateChange.encode(state.encoded()))
            ])
        let logged = try LoggedOperation(decoding: operation.encoded())
        #expect(logged.latestTime == 10)
        #expect(logged.stamp == operation.stamp)
        #expect(logged.changes.map(\.content) == [.state(state)])
    }
}
