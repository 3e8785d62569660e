import CRDT
import Testing

@Suite("A register's text in place")
struct RegisterTextTests {
    @Test(
        "the bytes are those of the text that the register gives",
        arguments: [
            "", "a", "ä€😀", String(repeating: "x", count: 63),
            String(repeating: "y", count: 64),
        ])
    func text(_ text: String) throws {
        var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(1)))
        try editor.set(["a"], .string(text))
        try editor.document.encoded().withUnsafeBytes { bytes in
            let field = try #require(try DocumentReader(bytes).root.field("a"))
            let found = try #require(try field.registerText())
            #expect(Array(found) == Array(text.utf8))
        }
    }

    @Test(
        "anything else has no text",
        arguments: [1, 1_000, 1.5, true, .null, ["x"], .binary([1])] as [Value])
    func others(_ value: Value) throws {
        var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(1)))
        try editor.set(["a"], value)
        try editor.set(["m", "x"], 1)
        try editor.document.encoded().withUnsafeBytes { bytes in
            let root = try DocumentReader(bytes).root
            #expect(try root.field("a")?.registerText() == nil)
            #expect(try root.field("m")?.registerText() == nil)
        }
    }

    @Test("of concurrent texts it is the one with the greatest stamp")
    func concurrent() throws {
        var left = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(1)))
        try left.set(["a"], "left")
        var right = DocumentEditor(document: Document(), stamp: Stamp(time: 2, actor: ActorID(2)))
        try right.set(["a"], "right")
        var document = left.document
        document.merge(right.document)
        try document.encoded().withUnsafeBytes { bytes in
            let found = try #require(try DocumentReader(bytes).root.field("a")?.registerText())
            #expect(String(decoding: found, as: UTF8.self) == "right")
        }
    }
}
