import TestSupport
import Testing

@testable import CRDT

@Suite("Encodings there and back")
struct RoundTripTests {
    @Test(
        "a document, a delta, an operation and a vector come back as they were",
        arguments: Depth.cases(fast: 50, deep: 500))
    func identity(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<4 {
            let document = random.document()
            let bytes = document.encoded()
            let again = try Document(decoding: bytes)
            #expect(again == document, "seed \(seed)")
            #expect(again.encoded() == bytes, "seed \(seed)")

            let delta = random.delta(on: document)
            let deltaAgain = try Delta(decoding: delta.encoded(), stamp: delta.stamp)
            #expect(deltaAgain == delta, "seed \(seed)")
            #expect(deltaAgain.encoded() == delta.encoded(), "seed \(seed)")

            let vector = document.vector
            #expect(try VersionVector(decoding: vector.encoded()) == vector, "seed \(seed)")

            let operation = random.operation()
            let decoded = try Operation(decoding: operation.encoded())
            #expect(decoded == operation, "seed \(seed)")
            #expect(decoded.encoded() == operation.encoded(), "seed \(seed)")
            let header = OperationHeader(
                actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp)
            #expect(try OperationHeader.peek(operation.encoded()) == header, "seed \(seed)")
        }
    }

    @Test("every value survives as a register with its type", arguments: Depth.cases(fast: 50, deep: 500))
    func values(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<20 {
            let value = random.value(depth: 4)
            let stamp = Stamp(time: 1, actor: ActorID(1))
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            try editor.set(["a"], value, objectsAreRegisters: true)
            let bytes = editor.document.encoded()
            #expect(try Document(decoding: bytes).value["a"] == value, "seed \(seed)")
            #expect(try CBOR.decode(CBOR.encode(value)) == value, "seed \(seed)")
        }
    }

    @Test("the whole range of a timestamp and of an actor survives")
    func extremes() throws {
        let stamp = Stamp(time: .max, actor: ActorID(.max))
        var document = Document()
        for early in [Stamp(time: 0, actor: ActorID(0)), Stamp(time: 1, actor: ActorID(.max)), stamp] {
            var editor = DocumentEditor(document: document, stamp: early)
            try editor.set(["\(early.time)"], 1)
            let delta = try #require(editor.pending.delta(stamp: early))
            #expect(try Delta(decoding: delta.encoded(), stamp: early) == delta)
            document = editor.document
        }
        #expect(try Document(decoding: document.encoded()) == document)
    }

    @Test("the deepest document that can be written can be read")
    func deepest() throws {
        let stamp = Stamp(time: 1, actor: ActorID(1))
        let path = Array(repeating: "a", count: Limits.nestingDepth)
        for value in [Value.int(1), [:]] {
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            try editor.set(path, value)
            let delta = try #require(editor.pending.delta(stamp: stamp))
            #expect(try Delta(decoding: delta.encoded(), stamp: stamp) == delta)
            let bytes = editor.document.encoded()
            #expect(try Document(decoding: bytes) == editor.document)
            let read = try bytes.withUnsafeBytes { raw in try DocumentReader(raw).root.value() }
            #expect(read == editor.document.value)
        }
    }

    @Test("a one-field delta takes at most 25 bytes")
    func deltaSize() throws {
        let time = Timestamp(1_750_000_000_000) << 16
        let before = Stamp(time: time, actor: ActorID(.max))
        var editor = DocumentEditor(document: Document(), stamp: before)
        try editor.set(["mileage"], 12_345)
        let after = Stamp(time: time + 5_000 << 16, actor: ActorID(.max))
        var next = DocumentEditor(document: editor.document, stamp: after)
        try next.set(["mileage"], 12_399)
        #expect(try #require(next.pending.delta(stamp: after)).encoded().count <= 25)
    }
}
