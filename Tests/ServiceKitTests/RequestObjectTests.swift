import CRDT
import Testing

@testable import ServiceKit

@Suite("The JSON object of a request")
struct RequestObjectTests {
    private func message(_ text: String, _ known: [String] = ["statement", "args"]) -> String? {
        do {
            _ = try RequestObject(text.utf8, known: known)
            return nil
        } catch {
            return error.message
        }
    }

    @Test("known members are taken, with a mark before and blanks around them")
    func fine() throws {
        let object = try RequestObject("\u{FEFF} {\"args\":{\"x\":1}} ".utf8, known: ["statement", "args"])
        #expect(object.members["args"] == ["x": 1])
        #expect(try RequestObject([UInt8](), known: ["a"], mayBeEmpty: true).members.isEmpty)
    }

    @Test(
        "a slip is named, with the member that was meant",
        arguments: [
            (#"{"arguments":{}}"#, #""arguments" is not a member of this request; did you mean "args"?"#),
            (#"{"statment":""}"#, #"did you mean "statement"?"#),
            (#"{"q":1}"#, #""q" is not a member of this request; it has "args", "statement""#),
            (#"{"args":{"k":1,"k":1}}"#, #"the key "k" appears twice"#),
            (#"{"args":{"k":99999999999999999999}}"#, "99999999999999999999 is beyond 64 bits"),
            ("[]", "the body must be a JSON object"), ("", "invalid JSON"),
            ("{} {}", "text follows the value"),
        ])
    func slips(_ text: String, _ expected: String) {
        #expect(message(text)?.contains(expected) == true, "\(message(text) ?? "taken")")
    }

    @Test("members and elements are bounded, at any depth, before they take memory")
    func many() throws {
        func object(_ elements: Int) -> String {
            "{\"args\":{\"a\":[" + Array(repeating: "{}", count: elements).joined(separator: ",") + "]}}"
        }
        // The object, its member and that one's member are values too.
        let most = Limits.requestValues - 3
        #expect(message(object(most)) == nil)
        #expect(message(object(most + 1))?.contains("more than 4096 members and elements") == true)
        let deep = "{\"args\":" + String(repeating: "[", count: 100_000)
        #expect(message(deep)?.contains("nested") == true)
    }

    @Test("an unknown member's value is not repeated, and a long name is cut")
    func secrets() {
        #expect(message(#"{"password":"hunter2"}"#)?.contains("hunter2") == false)
        let long = String(repeating: "n", count: 10_000)
        #expect((message("{\"\(long)\":1}")?.count ?? .max) < 200)
    }

    @Test("a request without members says so")
    func none() { #expect(message(#"{"x":1}"#, []) == #""x" is not a member of this request; it has none"#) }
}
