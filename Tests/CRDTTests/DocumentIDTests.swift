import TestSupport
import Testing

@testable import CRDT

@Suite("Document ids")
struct DocumentIDTests {
    @Test(
        "strings, integers, booleans, binaries, arrays and objects are ids",
        arguments: [
            "a", "", 1, -1, .int(.max), .int(.min), true, false, .binary([1]), [], [1, "a", [true]], [:],
            ["a": ["b": [1]]],
        ] as [Value])
    func allowed(_ value: Value) throws {
        let id = try DocumentID(value)
        #expect(id.value == value)
        #expect(try DocumentID(canonical: id.bytes) == id)
    }

    @Test(
        "damaged bytes of a file end no process: they show as null, which is no id",
        arguments: [[], [0xFF], [0x63, 0x61], [0x78, 0x20, 0x61], [0x1B, 0]] as [[UInt8]])
    func damaged(_ bytes: [UInt8]) {
        let id = DocumentID(trusted: bytes)
        #expect(id.value == .null)
        let error = #expect(throws: CRDTError.self) { try DocumentID(id.value) }
        #expect(error?.code == .nullDocumentID)
    }

    @Test(
        "a float is refused with the original's message",
        arguments: [1.5, 1.0, [1.0], ["a": [2.5]]] as [Value])
    func floats(_ value: Value) {
        let error = #expect(throws: CRDTError.self) { try DocumentID(value) }
        #expect(error == CRDTError(.floatInDocumentID, "Floats are not supported in document IDs"))
    }

    @Test(
        "null is refused with the original's message", arguments: [.null, [.null], ["a": .null]] as [Value])
    func nulls(_ value: Value) {
        let error = #expect(throws: CRDTError.self) { try DocumentID(value) }
        #expect(error == CRDTError(.nullDocumentID, "Null document ID not allowed"))
    }

    @Test("the order of an object's keys does not matter, at any depth")
    func keyOrder() throws {
        let left = try DocumentID(["a": 1, "bb": ["x": 1, "y": 2]])
        let right = try DocumentID(["bb": ["y": 2, "x": 1], "a": 1])
        #expect(left == right)
        #expect(left.bytes == right.bytes)
        #expect(Set([left, right]).count == 1)
    }

    @Test("ids that look alike differ by type and by bytes")
    func distinct() throws {
        let values: [Value] = [1, "1", true, [1], "é", "e\u{301}", .binary([0x31]), ["1": 1]]
        #expect(Set(try values.map { try DocumentID($0) }).count == values.count)
    }

    @Test("an id is as long as the limit allows and no longer")
    func length() throws {
        let longest = String(repeating: "x", count: Limits.documentIDBytes - 3)
        #expect(try DocumentID(.string(longest)).bytes.count == Limits.documentIDBytes)
        #expect(errorCode { try DocumentID(.string(longest + "x")) } == .invalidDocumentID)
    }

    @Test("an id nests as deep as it can be read again and no deeper")
    func depth() throws {
        let nested = { (levels: Int) in (0..<levels).reduce(Value.int(1)) { inner, _ in .array([inner]) } }
        let deepest = nested(Limits.nestingDepth)
        #expect(try DocumentID(deepest).value == deepest)
        #expect(errorCode { try DocumentID(nested(Limits.nestingDepth + 1)) } == .tooDeep)
    }

    @Test(
        "bytes that are not the canonical form are refused",
        arguments: [
            ("1801", CRDTErrorCode.invalidDocumentID), ("a2616201616101", .invalidDocumentID),
            ("a2616101616101", .invalidDocumentID), ("c101", .invalidDocumentID), ("", .truncated),
            ("f6", .nullDocumentID), ("f7", .nullDocumentID), ("f93c00", .floatInDocumentID),
            ("1bffffffffffffffff", .floatInDocumentID), ("0000", .malformed),
        ])
    func nonCanonical(_ hex: String, _ code: CRDTErrorCode) {
        #expect(errorCode { try DocumentID(canonical: Hex.decode(hex)) } == code)
    }

    @Test("ids order by their bytes and describe themselves")
    func order() throws {
        let ids = try [Value.int(1), -1, "a", "b", "aa", [1], ["a": 1], true].map { try DocumentID($0) }
        #expect(ids.sorted() == ids)
        #expect(ids.map(\.description) == ["1", "-1", "a", "b", "aa", "[1]", "{\"a\":1}", "true"])
    }

    @Test("what is seen to be an id in place is what decoding it says, whatever the bytes")
    func plain() throws {
        var generator = SplitMix64(seed: Depth.seed &+ 7)
        var found = 0
        let heads: [UInt8] = [
            0x00, 0x17, 0x18, 0x20, 0x37, 0x38, 0x40, 0x60, 0x61, 0x63, 0x77, 0x78, 0x79, 0x80, 0xA0, 0xF4,
        ]
        for round in 0..<20_000 {
            var bytes = [heads[generator.below(heads.count)]]
            if bytes[0] == 0x78 { bytes.append(UInt8(generator.below(40))) }
            let length = round % 3 == 0 ? generator.below(40) : Int(bytes.last ?? 0) & 0x3F
            for _ in 0..<length { bytes.append(UInt8(generator.below(round % 5 == 0 ? 256 : 128))) }
            let decoded = try? DocumentID(try CBOR.decode(bytes)).bytes
            guard DocumentID.isPlain(bytes) else { continue }
            found += 1
            #expect(decoded == bytes, "\(bytes)")
        }
        #expect(found > 500)
        #expect(DocumentID.isPlain(try DocumentID("order-0000001").bytes))
        #expect(DocumentID.isPlain(try DocumentID(.string(String(repeating: "x", count: 36))).bytes))
        #expect(!DocumentID.isPlain([0x61, 0xC3]))
        #expect(!DocumentID.isPlain([0x78, 3, 97, 97, 97]))
    }
}
