import TestSupport
import Testing

@testable import CRDT

@Suite("Insertions read straight from their bytes")
struct InsertionTests {
    private let stamp = Stamp(time: 77 << 16, actor: ActorID(5))

    private func object(_ value: Value) -> ObjectValue { value.objectValue ?? ObjectValue() }

    private func applied(_ bytes: [UInt8]) throws -> Document {
        var document = Document()
        #expect(document.apply(try Delta(decoding: EncodedDelta(bytes), stamp: stamp)) == .applied)
        return document
    }

    private func expectSame(_ fields: ObjectValue, objectsAreRegisters: Bool) throws {
        let fresh = try #require(
            try FreshDocument(fields, objectsAreRegisters: objectsAreRegisters, stamp: stamp))
        let insertion = try #require(Insertion(delta: fresh.delta, stamp: stamp))
        #expect(insertion.state == fresh.state, "\(fields)")
        #expect(try insertion.state == applied(fresh.delta.bytes).encoded(), "\(fields)")
        #expect(Insertion.isOne(fresh.delta))
        #expect(Insertion.stamp(ofState: fresh.state) == stamp)
        #expect(
            try Fold.step(.insertion(insertion), on: nil)
                == Fold.step(.delta(insertion.decoded()), on: nil))
    }

    @Test(
        "give the state that the decoded delta gives, byte for byte",
        arguments: Depth.cases(fast: 200, deep: 2_000))
    func same(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        try expectSame(random.object(depth: 4), objectsAreRegisters: random.chance(30))
        try expectSame(random.wideObject(), objectsAreRegisters: random.chance(30))
    }

    @Test("also of no fields, and of more than two bytes of offsets reach")
    func edges() throws {
        try expectSame(ObjectValue(), objectsAreRegisters: false)
        let long = Value.string(String(repeating: "x", count: 40_000))
        let below: Value = ["a": long, "b": long, "c": ["d": long, "e": long]]
        try expectSame(object(["m": below, "z": 1]), objectsAreRegisters: false)
    }

    @Test(
        "take no bytes that the decoders refuse, and mean what these mean",
        arguments: Depth.cases(fast: 150, deep: 1_500))
    func damaged(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed) &+ 9_000)
        // In a long text most letters may be any other.
        let text = Value.string(String(repeating: "x", count: 400))
        let fields = object(["long": text, "rest": .object(random.object(depth: 2))])
        let fresh = try #require(try FreshDocument(fields, stamp: stamp))
        var taken = (deltas: 0, states: 0)
        for _ in 0..<60 {
            var deltaBytes = fresh.delta.bytes
            var stateBytes = fresh.state.bytes
            for _ in 0...random.below(2) {
                deltaBytes[random.below(deltaBytes.count)] = UInt8(truncatingIfNeeded: random.next())
                stateBytes[random.below(stateBytes.count)] = UInt8(truncatingIfNeeded: random.next())
            }
            if random.chance(20) { deltaBytes.removeLast(1 + random.below(deltaBytes.count - 1)) }
            if random.chance(20) { stateBytes.append(0) }
            let delta = EncodedDelta(deltaBytes)
            let state = EncodedState(stateBytes)
            #expect(Insertion.isOne(delta) == (Insertion(delta: delta, stamp: stamp) != nil))
            if let insertion = Insertion(delta: delta, stamp: stamp) {
                #expect(try insertion.state == applied(delta.bytes).encoded())
                taken.deltas += 1
            }
            if let found = Insertion.stamp(ofState: state) {
                let document = try Document(decoding: state)
                #expect(document.isLive && document.vector.entries.map(\.time) == [found.time])
                #expect(document.vector[found.actor] == found.time)
                taken.states += 1
            }
        }
        // Some changes are of a letter only: else nothing was compared.
        #expect(taken.deltas > 0 && taken.states > 0)
    }

    @Test("are not what edits, removes, counts, seeds or rests on something")
    func others() throws {
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        try editor.set(["a"], 1)
        let unpresent = try #require(editor.pending.delta(stamp: stamp))
        #expect(!Insertion.isOne(unpresent.encoded()))
        var seeded = DocumentEditor(document: Document(), stamp: stamp)
        _ = try seeded.seed(object(["a": 1]))
        let seed = try #require(seeded.pending.delta(stamp: stamp))
        #expect(!Insertion.isOne(seed.encoded()))
        let fresh = try #require(try FreshDocument(object(["a": 1]), stamp: stamp))
        let later = Stamp(time: stamp.time + 1, actor: stamp.actor)
        var update = DocumentEditor(document: try Document(decoding: fresh.state), stamp: later)
        try update.set(["a"], 2)
        let change = try #require(update.pending.delta(stamp: later))
        #expect(!Insertion.isOne(change.encoded()))
        #expect(Insertion.stamp(ofState: update.document.encoded()) == nil)
        for bytes in [unpresent, seed] {
            let reach = try DeltaReach(decoding: bytes.encoded(), stamp: stamp)
            #expect(reach.base == bytes.base && reach.resultingVector == bytes.resultingVector)
            #expect(reach.writesStamp == bytes.writesStamp)
        }
        let reach = try DeltaReach(decoding: fresh.delta, stamp: stamp)
        let whole = try Delta(decoding: fresh.delta, stamp: stamp)
        #expect(reach.resultingVector == whole.resultingVector && reach.base.isEmpty && reach.writesStamp)
    }

    @Test("that meet another state are merged with it")
    func merged() throws {
        let fresh = try #require(try FreshDocument(object(["a": 1]), stamp: stamp))
        let other = Stamp(time: stamp.time + 9, actor: ActorID(6))
        let there = try #require(try FreshDocument(object(["b": 2]), stamp: other))
        let change = try LoggedChange(decoding: fresh.delta, stamp: stamp)
        guard case .insertion(let insertion) = change else {
            Issue.record("a plain insertion is not taken for one")
            return
        }
        let expected = try Fold.step(.delta(insertion.decoded()), on: there.state)
        #expect(try Fold.step(change, on: there.state) == expected)
        #expect(try Fold.step(change, on: fresh.state) == .duplicate)
    }

    @Test("the bytes of a state and of its delta are these, in stores that are there already")
    func exemplar() throws {
        let state: EncodedState = [
            1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 77, 3, 1, 0, 0, 1, 0, 1, 2, 2, 0, 0, 0, 4,
            1, 0x61, 0x21, 0x81, 1, 0x6D, 2, 12, 1, 0, 1, 1, 2, 0, 0, 1, 0x78, 0x21, 0x41, 0x79,
        ]
        let stamp = Stamp(time: 77, actor: ActorID(5))
        let fields = object(["a": 1, "m": ["x": "y"]])
        #expect(try FreshDocument(fields, stamp: stamp)?.state == state)
        let delta: EncodedDelta = [1, 0, 0, 6, 2, 1, 0x61, 2, 0x81, 1, 0x6D, 4, 6, 1, 1, 0x78, 2, 0x41, 0x79]
        #expect(state.withUnsafeBytes { Insertion.delta(ofState: $0)?.delta } == delta)
    }

    @Test("a state's delta is given only of what is nothing but an insertion, whole")
    func deltaOfState() throws {
        let stamp = Stamp(time: 77, actor: ActorID(5))
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        try editor.create(object(["a": 1, "m": ["x": ["y": "z"]]]))
        let state = editor.document.encoded()
        let made = try #require(state.withUnsafeBytes { Insertion.delta(ofState: $0) })
        #expect(made.stamp == stamp)
        #expect(made.delta == editor.pending.delta(stamp: stamp)?.encoded())
        for count in 0..<state.count {
            #expect(Array(state.bytes.prefix(count)).withUnsafeBytes { Insertion.delta(ofState: $0) == nil })
        }
        #expect((state.bytes + [0]).withUnsafeBytes { Insertion.delta(ofState: $0) == nil })
        // Written twice, deleted, of other kinds: not plain.
        let later = Stamp(time: 78, actor: ActorID(5))
        var again = DocumentEditor(document: editor.document, stamp: later)
        try again.set(["a"], 2)
        var gone = DocumentEditor(document: editor.document, stamp: later)
        gone.delete()
        for other in [again.document, gone.document, Document()] {
            #expect(other.encoded().withUnsafeBytes { Insertion.delta(ofState: $0) == nil })
        }
    }
}
