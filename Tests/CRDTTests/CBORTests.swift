import Testing

@testable import CRDT

@Suite("CBOR (RFC 8949)")
struct CBORTests {
    /// Appendix A, as far as values can hold it and it is in deterministic form: these bytes both ways.
    static let deterministic: [(String, Value)] = [
        ("00", 0), ("01", 1), ("0a", 10), ("17", 23), ("1818", 24), ("1819", 25), ("1864", 100),
        ("1903e8", 1000), ("1a000f4240", 1_000_000), ("1b000000e8d4a51000", 1_000_000_000_000),
        ("20", -1), ("29", -10), ("3863", -100), ("3903e7", -1000), ("1b7fffffffffffffff", .int(.max)),
        ("3b7fffffffffffffff", .int(.min)), ("f90000", 0.0), ("f98000", -0.0), ("f93c00", 1.0),
        ("fb3ff199999999999a", 1.1), ("f93e00", 1.5), ("f97bff", 65504.0), ("fa47c35000", 100000.0),
        ("fa7f7fffff", 3.4028234663852886e+38), ("fb7e37e43c8800759c", 1.0e+300),
        ("f90001", 5.960464477539063e-8), ("f90400", 0.00006103515625), ("f9c400", -4.0),
        ("fbc010666666666666", -4.1), ("f97c00", .double(.infinity)), ("f97e00", .double(.nan)),
        ("f9fc00", .double(-.infinity)), ("f4", false), ("f5", true), ("f6", .null), ("40", .binary([])),
        ("4401020304", .binary([1, 2, 3, 4])), ("60", ""), ("6161", "a"), ("6449455446", "IETF"),
        ("62225c", "\"\\"), ("62c3bc", "\u{FC}"), ("63e6b0b4", "\u{6C34}"), ("64f0908591", "\u{10151}"),
        ("80", []), ("83010203", [1, 2, 3]), ("8301820203820405", [1, [2, 3], [4, 5]]),
        (
            "98190102030405060708090a0b0c0d0e0f101112131415161718181819",
            .array((1...25).map { .int($0) })
        ), ("a0", [:]), ("a26161016162820203", ["a": 1, "b": [2, 3]]),
        ("826161a161626163", ["a", ["b": "c"]]),
        ("a56161614161626142616361436164614461656145", ["a": "A", "b": "B", "c": "C", "d": "D", "e": "E"]),
    ]

    /// Appendix A, and other encoders' forms: read, but not what we write.
    static let readOnly: [(String, Value)] = [
        ("1bffffffffffffffff", 18446744073709551615.0), ("3bffffffffffffffff", -18446744073709551616.0),
        ("fa7f800000", .double(.infinity)), ("fa7fc00000", .double(.nan)),
        ("faff800000", .double(-.infinity)),
        ("fb7ff0000000000000", .double(.infinity)), ("fb7ff8000000000000", .double(.nan)),
        ("fbfff0000000000000", .double(-.infinity)), ("f7", .null), ("1800", 0), ("190001", 1),
        ("fb3ff0000000000000", 1.0), ("c11a514b67b0", 1_363_896_240), ("c1fb41d452d9ec200000", 1363896240.5),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
        ("d74401020304", .binary([1, 2, 3, 4])), ("a2616101616102", ["a": 2]),
    ]

    /// Items that no value can hold, and bytes that are no item at all.
    static let refused: [(String, CRDTErrorCode)] = [
        ("", .truncated), ("18", .truncated), ("19ff", .truncated), ("1a0000", .truncated),
        ("41", .truncated),
        ("6261", .truncated), ("8201", .truncated), ("a161", .truncated), ("c1", .truncated),
        ("fb00", .truncated),
        ("f0", .invalidCBOR), ("f818", .invalidCBOR), ("f8ff", .invalidCBOR),
        ("5f42010243030405ff", .invalidCBOR),
        ("7f657374726561646d696e67ff", .invalidCBOR), ("9fff", .invalidCBOR), ("bfff", .invalidCBOR),
        ("ff", .invalidCBOR), ("1c", .invalidCBOR), ("3d", .invalidCBOR), ("fe", .invalidCBOR),
        ("a201020304", .invalidCBOR), ("a1f600", .invalidCBOR), ("61ff", .invalidUTF8),
        ("62c328", .invalidUTF8),
        ("0000", .malformed), ("f600", .malformed),
    ]

    @Test("values are written as appendix A says and read back", arguments: deterministic)
    func vectors(_ hex: String, _ value: Value) throws {
        #expect(Hex.encode(CBOR.encode(value)) == hex)
        #expect(try CBOR.decode(Hex.decode(hex)) == value)
    }

    @Test("other encoders' forms are read", arguments: readOnly)
    func tolerance(_ hex: String, _ value: Value) throws {
        #expect(try CBOR.decode(Hex.decode(hex)) == value)
    }

    @Test("what is no value is refused with its code", arguments: refused)
    func refusals(_ hex: String, _ code: CRDTErrorCode) {
        #expect(errorCode { try CBOR.decode(Hex.decode(hex)) } == code)
    }

    @Test("keys sort by their encoded bytes: the shorter first, whatever order they came in")
    func keyOrder() {
        let expected = "a4" + "60" + "00" + "6162" + "01" + "626161" + "02" + "62c3a9" + "03"
        #expect(Hex.encode(CBOR.encode(["é": 3, "aa": 2, "": 0, "b": 1])) == expected)
        #expect(Hex.encode(CBOR.encode(["b": 1, "": 0, "aa": 2, "é": 3])) == expected)
    }

    @Test("all 65,536 half floats are read exactly and written back as halves")
    func halfFloats() throws {
        for bits in UInt16.min...UInt16.max {
            let bytes = [0xF9, UInt8(bits >> 8), UInt8(bits & 0xFF)]
            let value = try CBOR.decode(bytes)
            let isNaN = bits & 0x7C00 == 0x7C00 && bits & 0x3FF != 0
            #expect(CBOR.encode(value) == (isNaN ? [0xF9, 0x7E, 0x00] : bytes))
            #expect(value == .double(Self.reference(bits)))
        }
    }

    /// RFC 8949 appendix D, by way of single precision: shifting the fields and scaling by 2^112.
    static func reference(_ bits: UInt16) -> Double {
        let sign = UInt32(bits & 0x8000) << 16
        guard bits & 0x7C00 != 0x7C00 else {
            return bits & 0x3FF != 0 ? .nan : Double(Float(bitPattern: sign | 0x7F80_0000))
        }
        return Double(Float(bitPattern: sign | UInt32(bits & 0x7FFF) << 13) * 0x1p112)
    }

    @Test(
        "a double takes the shortest width that keeps it",
        arguments: [
            (65505.0, 5), (65536.0, 5), (0x1p-25, 5), (1.0009765625, 3), (1.00048828125, 5), (0.1, 9),
            (1e39, 9), (Double.leastNonzeroMagnitude, 9), (Double(Float.leastNonzeroMagnitude), 5),
            (Double.greatestFiniteMagnitude, 9), (-65504.0, 3), (3.4028234663852890e38, 9),
        ])
    func shortest(_ number: Double, _ length: Int) throws {
        let bytes = CBOR.encode(.double(number))
        #expect(bytes.count == length)
        #expect(try CBOR.decode(bytes) == .double(number))
    }

    @Test("nesting is read down to the limit and refused below it")
    func depth() throws {
        let allowed = [UInt8](repeating: 0x81, count: Limits.nestingDepth) + [0x00]
        #expect(CBOR.encode(try CBOR.decode(allowed)) == allowed)
        #expect(errorCode { try CBOR.decode([0x81] + allowed) } == .tooDeep)
        #expect(errorCode { try CBOR.decode([0xC1] + allowed) } == .tooDeep)
    }

    @Test("a frame is written and read item by item")
    func items() throws {
        var writer = CBORWriter()
        writer.array(count: 6)
        writer.unsigned(.max)
        writer.text("é")
        writer.binary([1, 2])
        writer.bool(true)
        writer.null()
        writer.map(count: 1)
        writer.text("k")
        writer.value([1])
        try writer.bytes.withUnsafeBytes { raw throws in
            var decoder = CBORDecoder(raw)
            #expect(try decoder.array() == 6)
            #expect(try decoder.unsigned() == .max)
            #expect(try decoder.text() == "é")
            #expect(try decoder.binary() == [1, 2])
            #expect(try decoder.bool())
            #expect(try decoder.value() == .null)
            #expect(try decoder.map() == 1)
            #expect(try decoder.text() == "k")
            #expect(!decoder.isAtEnd)
            #expect(try decoder.value() == [1])
            #expect(decoder.isAtEnd)
        }
    }

    @Test("an item of another kind than expected is refused")
    func wrongKind() {
        [UInt8(0xF6)].withUnsafeBytes { raw in
            var decoder = CBORDecoder(raw)
            #expect(errorCode { try decoder.unsigned() } == .invalidCBOR)
            decoder = CBORDecoder(raw)
            #expect(errorCode { try decoder.text() } == .invalidCBOR)
            decoder = CBORDecoder(raw)
            #expect(errorCode { try decoder.map() } == .invalidCBOR)
            decoder = CBORDecoder(raw)
            #expect(errorCode { try decoder.bool() } == .invalidCBOR)
        }
    }
}

/// Hexadecimal digits, as fixtures and specifications write bytes.
enum Hex {
    static func encode(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    static func decode(_ text: String) -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
