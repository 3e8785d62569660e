import CRDT
import Foundation
import Testing

@testable import Mimeo

@Suite("Reading JSON")
struct JSONReadingTests {
    @Test(
        "documents are read from an array, an object, or the only list of objects in an outer object",
        arguments: [
            (#"[{"a":1},{"a":2}]"#, 2, []), ("[]", 0, []), (#"{"3166-1":[{"a":1}]}"#, 1, ["CLI-W103"]),
            (#"{"_id":1,"tags":[]}"#, 1, ["CLI-W103"]), (#"{"a":1,"list":[1,2]}"#, 1, ["CLI-W103"]),
            (#"{"count":2,"next":null,"results":[{"a":1},{"a":2}],"tags":["x"]}"#, 2, ["CLI-W103"]),
            (#"{"type":"FeatureCollection","features":[{},{},{}],"links":[{}],"bbox":[0]}"#, 3, ["CLI-W103"]),
            (#"{"type":"FeatureCollection","features":[]}"#, 0, ["CLI-W103"]),
            (#"{"_id":1,"lines":[{"sku":1},{"sku":2}]}"#, 1, ["CLI-W103"]),
            (#"{"mixed":[{},1]}"#, 1, ["CLI-W103"]), (#"{"data":{"rows":[{},{}]}}"#, 1, ["CLI-W103"]),
            ("{\"a\":\n1}{\"a\":2} {\"a\":[{}]}", 3, ["CLI-W103"]), ("[{}]\n[{},{}]", 3, ["CLI-W103"]),
            ("[][{}][]\u{FEFF}[{}]", 2, ["CLI-W103"]), ("[]\n[]", 0, ["CLI-W103"]),
        ] as [(String, Int, [String])])
    func shapes(text: String, count: Int, told: [String]) throws {
        let notes = ImportNotes()
        #expect(try json(text, ReadingOptions(), notes).count == count)
        #expect(notes.all.map(\.code.rawValue) == told)
    }

    @Test("--path names the list, a dot the outer object; several lists need it")
    func paths() throws {
        let text = #"{"a":{"b":[{"n":1}],"c.d":[{"n":2},{"n":3}]},"e":[{"n":4}],"f":[{"n":5}],"g":7}"#
        #expect(try json(text, ReadingOptions(path: "a.b")) == [object(("n", 1))])
        #expect(try json(text, ReadingOptions(path: "a.c.d")) == [object(("n", 2)), object(("n", 3))])
        #expect(try json(text, ReadingOptions(path: ".")).count == 1)
        #expect(
            failure { _ = try json(text) }
                == "CLI-0403: f.json: the outer object has several lists of objects: --path names one of "
                + "a.b, a.c.d, e, f, and --path . takes the object as one document")
        #expect(
            failure { _ = try json(text, ReadingOptions(path: "g")) }
                == "CLI-0101: f.json has no array at --path g; arrays of objects are at a.b, a.c.d, e, f")
        #expect(failure { _ = try json("[]", ReadingOptions(path: "a")) }?.hasPrefix("CLI-0101: ") == true)
        let hint = try notes { _ = try json(#"{"data":{"rows":[{}]}}"#, ReadingOptions(), $0) }
        #expect(hint.first?.hasSuffix("arrays of objects are at data.rows") == true)
    }

    @Test(
        "a wrong text is refused before anything of it is read",
        arguments: [
            ("[{}, 5]", "f.json:1: document 2: not a JSON object"), ("5", "f.json:1: the text must be"),
            ("", "f.json:1: the text is empty"),
            ("[{},\n{\"a\": \n}]", "f.json:2: invalid JSON: not a value, at line 2"),
            ("[{}", "f.json:1: invalid JSON: a comma or closing bracket"),
            ("[{}] 1", "f.json:1: invalid JSON: text follows"), ("[{}],[{}]", "f.json:1: invalid JSON: text"),
            ("[{}]\n{}", "f.json:2: invalid JSON: text follows"),
            ("[{}][5]", "f.json:1: document 2: not a JSON"),
            ("[{}\u{1E}]", "f.json:1: invalid JSON: a comma"),
            ("{\"a\":1} 2", "f.json:1: invalid JSON: text follows"),
            ("{\"a\":1", "f.json:1: invalid JSON: a comma"),
            ("{\"a\":nonsense,\n\"b\":[{}]}", "f.json:1: invalid JSON: an unknown word"),
            ("{a:1}", "f.json:1: invalid JSON: a key must"), ("{\"a\" 1}", "f.json:1: invalid JSON: a colon"),
            ("[{},]", "f.json:1: invalid JSON: a value is missing"),
            ("[\"a", "f.json:1: invalid JSON: the text ends"),
        ])
    func wrong(text: String, message: String) {
        #expect(failure { _ = try json(text) }?.hasPrefix("CLI-0403: " + message) == true)
    }

    @Test(
        "lines of JSON are read one by one, and a wrong one is named and can be skipped",
        arguments: ["\n", "\r\n", "\r"])
    func lines(end: String) throws {
        let text = ["{\"a\":1}", "", " ", "[]", "{", "{\"a\":2}"].joined(separator: end)
        var reader = try NDJSONReader(source(text, "f.ndjson"), notes: ImportNotes())
        #expect(try reader.next()?.document == object(("a", 1)))
        #expect(throws: RecordError(place: "f.ndjson:4", problem: "not a JSON object")) { try reader.next() }
        #expect(failure { _ = try reader.next() }?.contains("f.ndjson:5") == true)
        #expect(try reader.next()?.document == object(("a", 2)))
        #expect(try reader.next()?.document == nil)
    }

    @Test("repeated keys and integers beyond 64 bits are told, with place and number")
    func oddities() throws {
        let told = try notes { notes in
            let text =
                #"[{"a":{"k":1,"b":2,"\u006b":3}},{"n":9223372036854775808,"m":-9223372036854775808},"#
                + #"{"n":[123456789012345678901],"s":"{\"a\":1,\"a\":99999999999999999999}","x":1.5e300}]"#
            let documents = try json(text, ReadingOptions(), notes)
            #expect(documents[0] == object(("a", ["k": 3, "b": 2])))
            #expect(documents[1] == object(("n", .double(9_223_372_036_854_775_808)), ("m", .int(.min))))
            #expect(notes.all.map(\.count) == [1, 2])
        }
        #expect(
            told.map { $0.prefix(60) }
                == [
                    "CLI-W106 f.json:1: document 1: the key 'k' stands twice in an",
                    "CLI-W105 f.json:1: document 2: the integer 9223372036854775808",
                ].map { $0.prefix(60) })
    }

    @Test("a number that is 0 as a double is told, one that is 0 is not")
    func smallNumbers() throws {
        let told = try notes {
            _ = try json(#"[{"a":0e5,"b":0.00000000000000000000},{"c":-1e-400}]"#, ReadingOptions(), $0)
        }
        #expect(
            told == [
                "CLI-W105 f.json:1: document 2: the number -1e-400 is too small for a double and became 0"
            ])
    }

    @Test(
        "extended JSON becomes plain values",
        arguments: [
            (#"{"$oid":"5f00"}"#, "5f00"), (#"{"$numberInt":"7"}"#, 7),
            (#"{"$numberLong":"9007199254740993"}"#, 9_007_199_254_740_993), (#"{"$numberLong":5}"#, 5),
            (#"{"$numberDouble":"1.5"}"#, 1.5), (#"{"$numberDouble":"3"}"#, 3.0),
            (#"{"$numberDouble":"Infinity"}"#, "Infinity"), (#"{"$numberDecimal":"0.10"}"#, 0.1),
            (#"{"$numberDecimal":"0.1000000000000000000001"}"#, "0.1000000000000000000001"),
            (#"{"$date":"2021-02-03T04:05:06Z"}"#, "2021-02-03T04:05:06Z"),
            (#"{"$date":{"$numberLong":"1614556800000"}}"#, "2021-03-01T00:00:00Z"),
            (#"{"$date":{"$numberLong":"-1"}}"#, "1969-12-31T23:59:59.999Z"),
            (#"{"$date":{"$numberLong":"951782400007"}}"#, "2000-02-29T00:00:00.007Z"),
            (#"{"$date":{"$numberLong":"999999999999999"}}"#, 999_999_999_999_999),
            (#"{"$binary":{"base64":"AQI=","subType":"00"}}"#, "AQI="),
            (#"{"$binary":"AQI=","$type":"00"}"#, "AQI="),
            (#"{"$uuid":"c8edabc3"}"#, "c8edabc3"), (#"{"$timestamp":{"t":1,"i":2}}"#, ["t": 1, "i": 2]),
            (#"{"$regularExpression":{"pattern":"^a","options":"i"}}"#, "/^a/i"),
            (#"{"$regex":"b","$options":""}"#, "/b/"),
            (#"{"$symbol":"s"}"#, "s"), (#"{"$code":"f()"}"#, "f()"), (#"{"$undefined":true}"#, .null),
            (#"{"$minKey":1}"#, "$minKey"), (#"[{"a":{"$numberInt":"1"}}]"#, [["a": 1]]),
            (#"{"$other":1}"#, ["$other": 1]), (#"{"$options":"x","$regex":"c"}"#, "/c/x"),
            (#"{"$type":"00","$binary":"AQI="}"#, "AQI="), (#"{"$code":"f()","$scope":{}}"#, "f()"),
            (
                #"{"$oid":"5f","more":{"$numberInt":"2"}}"#,
                ["$oid": "5f", "more": 2]
            ),
        ] as [(String, Value)])
    func extended(text: String, plain: Value) throws {
        #expect(try json("[{\"v\":\(text)}]", ReadingOptions(extendedJSON: true)) == [object(("v", plain))])
    }

    @Test("extended JSON is suggested where it is met, and wrong extended JSON is an error")
    func extendedNotes() throws {
        let text = #"[{"_id":{"$oid":"5f"}},{"a":[{"$date":"x"}]}]"#
        let told = try notes { notes in
            let documents = try json(text, ReadingOptions(), notes)
            #expect(documents[0] == object(("_id", ["$oid": "5f"])))
        }
        #expect(
            told == [
                "CLI-W104 f.json:1: document 1: '$oid' is extended JSON; "
                    + "--extended-json turns it into plain values"
            ])
        #expect(
            failure { _ = try json(#"[{"a":{"$numberLong":"x"}}]"#, ReadingOptions(extendedJSON: true)) }
                == #"CLI-0403: f.json:1: document 1: {"$numberLong":"x"} begins like extended JSON and is "#
                + "none"
        )
    }
}
