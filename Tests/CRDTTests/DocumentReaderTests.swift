import TestSupport
import Testing

@testable import CRDT

@Suite("Reading in place")
struct DocumentReaderTests {
    @Test(
        "the reader sees what the decoded document holds, on every path",
        arguments: Depth.cases(fast: 60, deep: 600))
    func agreement(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<6 {
            let document = random.document()
            let bytes = document.encoded()
            let paths = (0..<30).map { _ in random.path() }
            #expect(throws: Never.self, "seed \(seed)") { try ReaderCheck.check(bytes.bytes, document) }
            try bytes.withUnsafeBytes { raw in
                let reader = try DocumentReader(raw)
                #expect(try reader.root.value() == document.value, "seed \(seed)")
                let key = document.value.entries.last?.key ?? "a"
                let first: ObjectValue.Entry = (key: key, value: "first")
                let all = try reader.root.value(after: first)
                #expect(
                    all == ObjectValue([first] + document.value.without(key).entries), "seed \(seed)")
                #expect(all.entries.first?.key == key, "seed \(seed)")
                for path in paths {
                    let field = try reader.field(path)
                    let slot = document.slot(path).flatMap { $0.isVisible ? $0 : nil }
                    #expect((field == nil) == (slot == nil), "seed \(seed), \(path)")
                    #expect(try field?.value() == slot?.value, "seed \(seed), \(path)")
                    let map = slot.flatMap { $0.holds(.map) ? $0.map : nil }
                    #expect(try field?.map()?.value() == map?.value, "seed \(seed), \(path)")
                    #expect(try field?.map()?.count() == map?.value.count, "seed \(seed), \(path)")
                }
            }
        }
    }

    @Test("several values and both kinds under one key: the newest shows, each kind can be asked for")
    func bothKinds() throws {
        var document = Document()
        for (number, value) in [Value.int(1), ["x": 2], .int(3)].enumerated() {
            let stamp = Stamp(time: UInt64(number) + 1, actor: ActorID(UInt64(number)))
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            try editor.set(["a"], value)
            document.merge(editor.document)
        }
        try document.encoded().withUnsafeBytes { raw in
            let field = try #require(try DocumentReader(raw).root.field("a"))
            #expect(field.newestKind == .register)
            #expect(try field.value() == 3)
            #expect(try field.value(.register) == 3)
            #expect(try field.value(.map) == ["x": 2])
        }
        #expect(document.conflicts(at: ["a"]) == [3, 1])
    }

    @Test(
        "every attachment that some reader sees is handed out: below maps, of concurrent writes, under others"
    )
    func attachments() throws {
        func token(_ id: String) -> Value { [AttachmentToken.marker: ["id": .string(id), "len": 1]] }
        var document = Document()
        for (number, id) in ["one", "two"].enumerated() {
            let stamp = Stamp(time: UInt64(number) + 1, actor: ActorID(UInt64(number)))
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            try editor.set(["a"], token(id))
            try editor.set(["deep", "er", "b\(number)"], token("below \(id)"))
            try editor.set(["c"], ["id": .string("no attachment"), "len": 1, "metadata": [:]])
            document.merge(editor.document)
        }
        var editor = DocumentEditor(document: document, stamp: Stamp(time: 9, actor: ActorID(9)))
        try editor.set(["deep", "er", "b0"], 7)
        try editor.unset(["deep", "er", "b1"])
        var found: [String] = []
        try editor.document.encoded().withUnsafeBytes { raw in
            try DocumentReader(raw).root.forEachAttachment { found.append($0.id) }
        }
        #expect(found.sorted() == ["below one", "one", "two"])
    }

    @Test(
        "fields keep 2-byte offsets up to 65,535 bytes and take 4 bytes beyond",
        arguments: [-1, 0, 1, 70_000])
    func wideOffsets(_ excess: Int) throws {
        let stamp = Stamp(time: 1, actor: ActorID(1))
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        // Key and head take 7 bytes for "a" (tag 6 with a 3-byte length), 4 for "b": 65,535 in all.
        let run = [UInt8](repeating: 7, count: 65_535 - 11 + excess)
        try editor.set(["a"], .binary(run))
        try editor.set(["b"], 2)
        let bytes = editor.document.encoded()
        #expect(try Document(decoding: bytes) == editor.document)
        // version, flags, vector of one, stamp table of one, no presence, greatest stamp, two fields: width.
        let header = 2 + 1 + 16 + 4 + 1 + 1 + 1
        #expect(bytes.bytes[header] == (excess > 0 ? 4 : 2))
        try bytes.withUnsafeBytes { raw in
            let root = try DocumentReader(raw).root
            #expect(try root.field("a")?.value() == .binary(run))
            #expect(try root.field("b")?.value() == 2)
            #expect(try root.field("c")?.value() == nil)
        }
    }

    @Test("visiting gives the fields in the order of their bytes")
    func order() throws {
        var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(1)))
        for key in ["é", "b", "", "aa", "Z", "e\u{301}", "a"] { try editor.set([key], 1) }
        var keys: [[UInt8]] = []
        try editor.document.encoded().withUnsafeBytes { raw in
            try DocumentReader(raw).root.forEach { key, _ in keys.append(Array(key.utf8)) }
        }
        #expect(keys == ["", "Z", "a", "aa", "b", "e\u{301}", "é"].map { Array($0.utf8) })
    }
}

extension DocumentReader {
    fileprivate func field(_ path: [String]) throws -> FieldReader? {
        var field = try root.field(path[0])
        for key in path.dropFirst() { field = try field?.map()?.field(key) }
        return field
    }
}

extension Document {
    fileprivate func slot(_ path: [String]) -> Slot? {
        path.dropFirst().reduce(root[path[0]]) { slot, key in slot?.map?[key] }
    }
}
