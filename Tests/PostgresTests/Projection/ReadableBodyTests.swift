import CRDT
import DQL
import DQLCorpus
import Testing

@testable import Postgres

@Suite("A document as JSON for people")
struct ReadableBodyTests {
    private static let stamp = Stamp(time: 1 << 20, actor: ActorID(1))

    private func body(_ edit: (inout DocumentEditor) throws -> Void) throws -> ReadableBody {
        var editor = DocumentEditor(document: Document(), stamp: Self.stamp)
        editor.create()
        try edit(&editor)
        return try editor.document.encoded().withUnsafeBytes { raw in
            try ReadableBody(try DocumentReader(raw), id: "x")
        }
    }

    private func text(_ value: Value) throws -> String {
        String(decoding: try body { try $0.set(["a"], value) }.text, as: UTF8.self)
    }

    @Test(
        "a value that JSON has stands as it is, and no key is rough",
        arguments: [
            (.null, "null"), (true, "true"), (1, "1"), (.int(.min), "-9223372036854775808"),
            (1.0, "1.0"), (0.1, "0.1"), (-2.5e-7, "-2.5e-07"), ("é \"q\" \\ \n", #""é \"q\" \\ \u000a""#),
            ([1, ["b": 2]], #"[1,{"b":2}]"#), (["m": ["x": 1]], #"{"m":{"x":1}}"#),
            ("👩‍👩‍👧", "\"👩‍👩‍👧\""), ([], "[]"),
        ] as [(Value, String)])
    func plain(_ value: Value, _ json: String) throws {
        #expect(try text(value) == #"{"_id":"x","a":\#(json)}"#)
        #expect(try body { try $0.set(["a"], value) }.rough == .keys([]))
    }

    @Test(
        "a value that JSON does not have stands in other words, and its key is rough",
        arguments: [
            (.double(.nan), #""NaN""#), (.double(.infinity), #""Infinity""#),
            (.double(-.infinity), #""-Infinity""#), (-0.0, "0.0"), (1e16, "1e+16"), (1e308, "1e+308"),
            ("a\u{0}b", "\"a\u{2400}b\""), (.binary([1, 2, 255]), #"{"~binary":"AQL/"}"#),
            ([.binary([])], #"[{"~binary":""}]"#), (["k\u{0}": 1], "{\"k\u{2400}\":1}"),
        ] as [(Value, String)])
    func inOtherWords(_ value: Value, _ json: String) throws {
        #expect(try text(value) == #"{"_id":"x","a":\#(json)}"#)
        let document = try body {
            try $0.set(["fine"], 1)
            try $0.set(["a"], value)
        }
        #expect(document.rough == .keys(["a"]))
    }

    @Test("a replaced key makes all rough, as text of an array with quotes")
    func roughTexts() throws {
        #expect(try body { try $0.set(["k\u{0}"], 1) }.rough == .all)
        #expect(ReadableBody.Rough.all.text == Array("{}".utf8))
        #expect(ReadableBody.Rough.keys([]).text == [])
        #expect(ReadableBody.Rough.keys(["a\"b", "c\\", ""]).text == Array(#"{"a\"b","c\\",""}"#.utf8))
    }

    @Test("a counter stands as its value, an attachment behind a word that says so")
    func kinds() throws {
        let token = try #require(AttachmentToken(id: "b", length: 3, metadata: [(key: "n", value: "v")]))
        let both = try body {
            try $0.increment(["n"], by: 5)
            try $0.set(["t"], token.marked)
        }
        #expect(
            String(decoding: both.text, as: UTF8.self)
                == #"{"_id":"x","n":5,"t":{"~attachment":{"id":"b","len":3,"metadata":{"n":"v"}}}}"#)
        #expect(both.rough == .keys(["t"]))
        #expect(try body { try $0.increment(["n"], by: 5) }.rough == .keys([]))
    }

    @Test(
        "an id is a text as it is, or JSON",
        arguments: [
            ("a\u{0}", "a\u{2400}"), (["k": [1, true]], #"{"k":[1,true]}"#), (7, "7"),
            (.binary([1]), #"{"~binary":"AQ=="}"#),
        ] as [(Value, String)])
    func keys(_ id: Value, _ text: String) {
        #expect(String(decoding: ReadableBody.key(of: id), as: UTF8.self) == text)
    }
}
