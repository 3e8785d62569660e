import CRDT
import Testing

@Suite("JSON text (RFC 8259)")
struct JSONTextTests {
    /// Texts that the grammar allows, with what they mean.
    static let accepted: [(String, Value)] = [
        ("null", .null), ("true", true), ("false", false), (" \t\r\n1 \n", 1), ("[]", []), ("[ ]", []),
        ("{}", [:]), ("{ }", [:]), ("[1,[2,[]],{}]", [1, [2, []], [:]]), ("\"\"", ""),
        ("{\"\":{\"a\":[null]}}", ["": ["a": [.null]]]), ("\"\u{7F}\"", "\u{7F}"),
        ("\"\u{2028}\"", "\u{2028}"),
        ("0", 0), ("-1", -1), ("42", 42), ("1.0", 1.0), ("-0.0", -0.0), ("0e1", 0.0), ("1E5", 1e5),
        ("1e+2", 100.0), ("25e-1", 2.5), ("123.456e-2", 1.23456), ("-0", -0.0),
        ("9223372036854775807", .int(.max)), ("-9223372036854775808", .int(.min)),
        ("9223372036854775808.0", 9.223372036854775808e18),
        ("-9223372036854775809e0", -9.223372036854775809e18),
        ("1e-400", 0.0),
        ("5e-324", .double(.leastNonzeroMagnitude)),
        ("1.7976931348623157e308", .double(.greatestFiniteMagnitude)),
        (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""\u0000""#, "\u{0}"),
        (#""\u00e9\u00E9""#, "éé"),
        (#""\uD834\uDD1E""#, "\u{1D11E}"),
        (#""\uFFFF""#, .string("\(Unicode.Scalar(UInt16.max).map(String.init) ?? "")")),
        (#""\u0061\u030a""#, "a\u{30A}"),
        ("\"\u{1F600}\"", "\u{1F600}"), (#"{"a":1,"a":2}"#, ["a": 2]),
        (#"{"b":1,"a":1,"b":2}"#, ["b": 2, "a": 1]), ("\"\u{FEFF}\"", "\u{FEFF}"),
    ]

    @Test(
        "a strict reader refuses a repeated key, and no reader takes an integer beyond 64 bits",
        arguments: [
            (#"{"a":1,"b":{"c":1,"\u0063":2}}"#, #""c" appears twice in one object, at line 1, column 19"#),
            (#"[{"x":0},{"é":1,"é":1}]"#, #"the key "é" appears twice"#),
            ("[9223372036854775808]", "the integer 9223372036854775808 is beyond 64 bits"),
            ("{\"n\":\n -9223372036854775809}", "-9223372036854775809 is beyond 64 bits"),
            ("[1,\n99999999999999999999]", "makes it a double), at line 2, column 1"),
        ])
    func strict(_ text: String, _ message: String) throws {
        let error = #expect(throws: CRDTError.self) { try JSONText.parseStrictly(Array(text.utf8)) }
        #expect(error?.code == .invalidJSON)
        #expect(error?.message.contains(message) == true)
        // The other reader takes the last of two keys, and rounds integers where it is asked to.
        _ = try JSONText.parse(Array(text.utf8), roundsIntegers: true)
    }

    @Test("a strict reader skips a byte order mark, keeps numbers, and tells keys apart by their bytes")
    func strictAccepts() throws {
        let numbers = "[9223372036854775807,-9223372036854775808,1.0,-0,1e3]"
        let text = "\u{FEFF}{\"n\":\(numbers),\"\u{E9}\":1,\"e\u{301}\":2}"
        let value = try JSONText.parseStrictly(Array(text.utf8))
        #expect(value["n"] == [.int(.max), .int(.min), 1.0, -0.0, 1000.0])
        #expect(value.objectValue?.count == 3)
    }

    /// Texts that the grammar does not allow.
    static let refused: [String] = [
        "", " ", "\u{FEFF}1", "nul", "True", "nullx", "NaN", "Infinity", "-Infinity", "undefined", "'a'",
        "01", "-01", "1.", ".5", "-.5", "1.e1", "1e", "1e+", "1eE2", "0x1F", "+1", "--1", "-", "1 2", "1_000",
        "1\u{A0}", "１", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1,,2]", "[1:2]", "[}", "{", "}",
        "{]",
        "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{,}", "{a:1}", "{1:1}", "{\"a\" 1}",
        "{\"a\",1}", "{\"a\":1:2}", "{\"a\":1 \"b\":2}", "{'a':1}", "{null:1}", "\"", "\"a", "\"\\\"",
        "\"\\\"\"x",
        #""\a""#, #""\x41""#, #""\u""#, #""\u12""#, #""\u12G4""#, #""\U0041""#, #""\u-123""#, #""\uD834""#,
        #""\uD834x""#, #""\uD834\n""#, #""\uD834\u0041""#, #""\uDD1E""#, #""\uDD1E\uD834""#,
        #""\uD834\uD834""#,
        "\"\n\"", "\"\t\"", "\"\u{0}\"", "\"\u{1F}\"", "1e400", "-1e400", "[1]]", "{}}", "1//", "/**/1",
        "[1]#",
        "\u{C}1", "\u{B}1", "\"a\"\"b\"", "truefalse", "[true false]", "* ", "\\u0031",
    ]

    @Test("what the grammar allows is read with its meaning and type", arguments: accepted)
    func accepts(_ text: String, _ value: Value) throws {
        #expect(try JSONText.parse(text) == value)
    }

    @Test("what the grammar does not allow is refused", arguments: refused)
    func refuses(_ text: String) {
        #expect(errorCode { try JSONText.parse(text) } == .invalidJSON)
    }

    @Test(
        "an integer beyond 64 bits is refused at its place, unless it may be rounded",
        arguments: [
            ("9223372036854775808", 9.223372036854775808e18),
            ("-9223372036854775809", -9.223372036854775809e18),
            ("100000000000000000000000000000000", 1e32),
        ])
    func largeIntegers(_ text: String, _ rounded: Double) throws {
        let error = #expect(throws: CRDTError.self) { try JSONText.parse("{\"a\":\n [\(text)]}") }
        #expect(error?.code == .invalidJSON)
        #expect(error?.message.contains("64 bits") == true)
        #expect(error?.message.hasSuffix("at line 2, column 3") == true)
        #expect(try JSONText.parse(Array(text.utf8), roundsIntegers: true) == .double(rounded))
    }

    @Test(
        "a string that is not UTF-8 is refused",
        arguments: [
            [0xFF], [0xC3], [0xE6, 0xB0], [0xED, 0xA0, 0x80], [0xC0, 0x80], [0xF4, 0x90, 0x80, 0x80],
        ])
    func invalidUTF8(_ run: [UInt8]) {
        #expect(errorCode { try JSONText.parse([0x22] + run + [0x22]) } == .invalidJSON)
        #expect(errorCode { try JSONText.parse([0x5B] + run + [0x5D]) } == .invalidJSON)
    }

    @Test("what was read prints to what reads the same", arguments: accepted)
    func roundTrip(_ text: String, _ value: Value) throws {
        #expect(try JSONText.parse(JSONText.print(value)) == value)
    }

    @Test("integers and doubles print so that they stay what they are")
    func numbers() {
        #expect(JSONText.print([1, 1.0, -0.0, 1e20, 0.1, 1e-7]) == "[1,1.0,-0.0,1e+20,0.1,1e-07]")
        #expect(JSONText.print([.int(.max), .int(.min)]) == "[9223372036854775807,-9223372036854775808]")
        #expect(JSONText.print([0, 9, -10, 100, 1_000_009, -99]) == "[0,9,-10,100,1000009,-99]")
        #expect(
            JSONText.print([.double(.nan), .double(.infinity), .double(-.infinity)]) == "[null,null,null]")
    }

    @Test("strings are escaped where they must be, binaries print as base64")
    func strings() {
        #expect(
            JSONText.print("\"\\\n\r\t\u{8}\u{C}\u{1}\u{1F}/é\u{7F}") == #""\"\\\n\r\t\b\f\u0001\u001f/é"#
                + "\u{7F}\"")
        let runs = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]
        let printed = (0...6).map { JSONText.print(.binary(Array("foobar".utf8.prefix($0)))) }
        #expect(printed == runs.map { "\"\($0)\"" })
        #expect(JSONText.print(.binary([0xFB, 0xFF])) == "\"+/8=\"")
    }

    @Test("every byte is found special or plain at each place of a run", arguments: 0..<20)
    func runs(_ place: Int) throws {
        for byte in UInt8.min...0x7F {
            var text = [UInt8](repeating: UInt8(ascii: "x"), count: 20)
            text[place] = byte
            let string = String(decoding: text, as: UTF8.self)
            let escaped = [0x22, 0x5C].contains(byte) || byte < 0x20
            let printed = JSONText.bytes(.string(string))
            #expect((printed.count > 22) == escaped)
            #expect(try JSONText.parse(printed) == .string(string))
            // As it stands, a control character, a quote and an escape that there is none of are refused.
            let raw = [0x22] + text + [0x22]
            #expect(((try? JSONText.parse(raw)) == .string(string)) == !escaped)
        }
    }

    @Test("escapes and runs alternate, and a broken run after an escape is refused")
    func alternation() throws {
        let text = "ä\n" + String(repeating: "long run of plain text ", count: 9) + "\\\"\u{1}é🎈"
        let value: Value = .array([.string(text), .object(ObjectValue([(key: text, value: .null)]))])
        let printed = JSONText.bytes(value)
        #expect(printed == Array(JSONText.print(value).utf8))
        #expect(try JSONText.parse(printed) == value)
        let broken = Array(#""a\n"#.utf8) + [0xFF, 0x22]
        #expect(errorCode { try JSONText.parse(broken) } == .invalidJSON)
    }

    @Test(
        "a strict reader finds a repeated key among few and among many, and takes as many different ones",
        arguments: [2, 15, 16, 17, 18, 400])
    func repeatedKeys(_ count: Int) throws {
        let members = (0..<count).map { "\"k\($0)\":\($0)" }
        let object = "{" + members.joined(separator: ",")
        #expect(try JSONText.parseStrictly(Array("\(object)}".utf8)).objectValue?.count == count)
        for repeated in ["k0", "k\(count - 1)"] {
            let error = #expect(throws: CRDTError.self) {
                try JSONText.parseStrictly(Array("\(object),\"\(repeated)\":1}".utf8))
            }
            #expect(error?.message.contains("the key \"\(repeated)\" appears twice") == true)
        }
    }

    @Test("keys print in their order, or sorted by bytes when asked")
    func keyOrder() {
        let value: Value = ["b": 1, "é": 2, "a": ["d": 3, "c": 4], "e\u{301}": 5]
        #expect(JSONText.print(value) == "{\"b\":1,\"é\":2,\"a\":{\"d\":3,\"c\":4},\"e\u{301}\":5}")
        let sorted = "{\"a\":{\"c\":4,\"d\":3},\"b\":1,\"e\u{301}\":5,\"é\":2}"
        #expect(Array(JSONText.print(value, sortedKeys: true).utf8) == Array(sorted.utf8))
    }

    @Test(
        "a strict reader refuses what would be lost",
        arguments: [
            ("{\"a\":1,\n\"a\":1}", "the key \"a\" appears twice in one object, at line 2, column 1"),
            ("1e-400", "a number out of range"),
        ])
    func strict(text: String, message: String) throws {
        #expect(throws: Never.self) { try JSONText.parse(text) }
        let error = #expect(throws: CRDTError.self) { try JSONText.parseStrictly(Array(text.utf8)) }
        #expect(error?.code == .invalidJSON)
        #expect(error?.message.contains(message) == true)
    }

    @Test("a strict reader takes what a value does hold")
    func strictValues() throws {
        let text = #"{"a":[{"k":1},{"k":2}],"é":-9223372036854775808,"b":0.0,"c":0e9,"d":1e22}"#
        #expect(try JSONText.parseStrictly(Array(text.utf8)) == JSONText.parse(text))
    }

    @Test("an error names line and column, counted in characters")
    func places() {
        let error = #expect(throws: CRDTError.self) { try JSONText.parse("[1,\n  \"é\" 2]") }
        #expect(error?.message == "invalid JSON: a comma or closing bracket is missing, at line 2, column 7")
    }

    @Test("nesting is read down to the limit and refused below it")
    func depth() throws {
        let allowed = Limits.nestingDepth + 1
        let text = { (count: Int) in
            String(repeating: "[", count: count) + String(repeating: "]", count: count)
        }
        #expect(try JSONText.parse(text(allowed)).arrayValue?.count == 1)
        #expect(errorCode { try JSONText.parse(text(allowed + 1)) } == .tooDeep)
        let objects = String(repeating: "{\"a\":", count: allowed + 1)
        #expect(errorCode { try JSONText.parse(objects) } == .tooDeep)
    }
}
