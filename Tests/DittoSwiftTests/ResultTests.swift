import CRDT
import Testing

@testable import DittoSwift

@Suite("Results")
struct ResultTests {
    private let item = DittoQueryResultItem([
        "_id": "x", "n": 1, "d": 1.0, "none": .null, "list": [1, "two"], "map": ["deep": true],
        "bytes": .binary([1, 2]),
    ])

    @Test("fields come in the types applications work with")
    func plainTypes() {
        let value = item.value
        #expect(value["n"] as? Int == 1)
        #expect(value["d"] as? Double == 1)
        #expect(value.keys.contains("none"))
        #expect((value["none"] ?? nil) == nil)
        #expect((value["list"] as? [Any?])?.first as? Int == 1)
        #expect((value["map"] as? [String: Any?])?["deep"] as? Bool == true)
        #expect(value["bytes"] as? Data == Data([1, 2]))
    }

    @Test("the dictionary is made when it is asked for, and dropped when it is not needed")
    func materializing() {
        let item = DittoQueryResultItem(["a": 1])
        #expect(!item.isMaterialized)
        item.materialize()
        #expect(item.isMaterialized)
        item.dematerialize()
        #expect(!item.isMaterialized)
        #expect(item.value["a"] as? Int == 1)
        #expect(item.isMaterialized)
    }

    @Test("JSON keeps integers and doubles apart, CBOR is the row's deterministic encoding")
    func encodings() throws {
        let item = DittoQueryResultItem(["n": 1, "d": 1.0])
        #expect(item.jsonString() == #"{"n":1,"d":1.0}"#)
        #expect(item.jsonData() == Data(item.jsonString().utf8))
        #expect(try CBOR.decode([UInt8](item.cborData())) == ["n": 1, "d": 1.0])
        #expect(!item.isMaterialized)
    }

    @Test("a bare value stands under $1")
    func bareValue() {
        #expect(DittoQueryResultItem(7).value["$1"] as? Int == 7)
        #expect(DittoQueryResultItem(7).jsonString() == "7")
    }

    @Test("document ids compare by content, and read as what they are")
    func documentIDs() {
        #expect(DittoDocumentID(value: "x") == "x")
        #expect(DittoDocumentID(value: 5) == 5)
        #expect(DittoDocumentID(value: ["a": 1, "b": "c"]) == DittoDocumentID(value: ["b": "c", "a": 1]))
        #expect(DittoDocumentID(value: 5).intValue == 5)
        #expect(DittoDocumentID(value: 5).stringValue == "")
        #expect(DittoDocumentID("x").description == "x")
        #expect(DittoDocumentID("x").toString() == "\"x\"")
        #expect(DittoDocumentID(value: ["a": 1]).description == #"{"a":1}"#)
        #expect(DittoDocumentID(value: { 1 }).value == nil)
    }
}
