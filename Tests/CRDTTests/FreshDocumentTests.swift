import TestSupport
import Testing

@testable import CRDT

@Suite("Documents inserted without an editor")
struct FreshDocumentTests {
    private let stamp = Stamp(time: 77, actor: ActorID(5))

    private func object(_ value: Value) -> ObjectValue { value.objectValue ?? ObjectValue() }

    private func expectSame(_ fields: ObjectValue, objectsAreRegisters: Bool) throws {
        let fresh = try #require(
            try FreshDocument(fields, objectsAreRegisters: objectsAreRegisters, stamp: stamp))
        // Once as one step, once field by field.
        var whole = DocumentEditor(document: Document(), stamp: stamp)
        try whole.create(fields, objectsAreRegisters: objectsAreRegisters)
        var single = DocumentEditor(document: Document(), stamp: stamp)
        single.create()
        for field in fields.entries {
            try single.set([field.key], field.value, objectsAreRegisters: objectsAreRegisters)
        }
        for editor in [whole, single] {
            #expect(fresh.state == editor.document.encoded(), "\(fields)")
            #expect(fresh.delta == editor.pending.delta(stamp: stamp)?.encoded(), "\(fields)")
            #expect(fresh.pending == editor.pending)
        }
        #expect(try Document(decoding: fresh.state) == whole.document)
    }

    @Test("state and delta are the editor's, byte for byte", arguments: Depth.cases(fast: 400, deep: 4_000))
    func same(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        try expectSame(random.object(depth: 4), objectsAreRegisters: random.chance(30))
        try expectSame(random.wideObject(), objectsAreRegisters: random.chance(30))
    }

    @Test(
        "so they are of documents that come one after the other, alike or not, without their id",
        arguments: Depth.cases(fast: 60, deep: 600))
    func series(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let series = FreshSeries()
        let alike = object(["b": 1, "a": ["y": 1, "x": 2], "_id": 7])
        for _ in 0..<12 {
            var fields = random.chance(60) ? alike : random.object(depth: 4)
            if random.chance(30) { fields["_id"] = 5 }
            let made = try FreshDocument(fields, without: "_id", stamp: stamp, in: series)
            let alone = try FreshDocument(fields.without("_id"), stamp: stamp)
            #expect(made?.state == alone?.state, "\(fields)")
            #expect(made?.delta == alone?.delta)
            #expect(made?.pending == alone?.pending)
            #expect(made?.fields == fields.without("_id"))
        }
    }

    @Test("so they are of no fields, and of more than two bytes of offsets reach")
    func edges() throws {
        try expectSame(ObjectValue(), objectsAreRegisters: false)
        let long = Value.string(String(repeating: "x", count: 40_000))
        let below: Value = ["a": long, "b": long, "c": ["d": long, "e": long]]
        try expectSame(object(["m": below, "a": long, "z": 1]), objectsAreRegisters: false)
    }

    @Test("what is too deep is refused, and attachments are left to the editor")
    func refused() throws {
        var deep: Value = ["a": 1]
        for _ in 0..<Limits.nestingDepth { deep = ["a": deep] }
        #expect(throws: CRDTError.self) { _ = try FreshDocument(object(deep), stamp: stamp) }
        let marked = try #require(AttachmentToken(["id": "x", "len": 3])).marked
        let values: [Value] = [["a": marked], ["a": ["b": marked]]]
        for value in values {
            #expect(try FreshDocument(object(value), stamp: stamp).map(\.fields) == nil)
            let strict = try FreshDocument(object(value), objectsAreRegisters: true, stamp: stamp)
            #expect(strict.map(\.fields) == object(value))
        }
    }

    @Test("an editor that goes on with them ends as if it had inserted them itself")
    func goesOn() throws {
        let fields = object(["a": 1, "m": ["x": 2]])
        let fresh = try #require(try FreshDocument(fields, stamp: stamp))
        var editor = DocumentEditor(
            document: try Document(decoding: fresh.state), pending: fresh.pending, stamp: stamp)
        try editor.set(["m", "y"], 3)
        try editor.unset(["a"])
        var whole = DocumentEditor(document: Document(), stamp: stamp)
        try whole.create(fields)
        try whole.set(["m", "y"], 3)
        try whole.unset(["a"])
        #expect(editor.document == whole.document)
        #expect(editor.pending == whole.pending)
    }
}
