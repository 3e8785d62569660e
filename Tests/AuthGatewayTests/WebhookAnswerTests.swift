import CRDT
import Foundation
import Identity
import Testing

@testable import AuthGateway

/// Every field of a webhook's answer, missing, of each type, at its limits and huge: what comes of the login.
@Suite("A webhook's answer, field by field")
struct WebhookAnswerTests {
    enum Outcome: String, Sendable { case accepted, refused, unusable }

    struct Case: Sendable, CustomTestStringConvertible {
        let field: String
        /// JSON text; nil leaves the field out.
        let value: String?
        let outcome: Outcome

        var testDescription: String { "\(field): \(value?.prefix(40) ?? "missing") is \(outcome)" }
    }

    private static let long = #""\#(String(repeating: "x", count: 60_000))""#
    private static let deep = String(repeating: "[", count: 3_000) + String(repeating: "]", count: 3_000)
    private static func text(_ count: Int) -> String { #""\#(String(repeating: "x", count: count))""# }

    /// The values that each field is given, in the order of the letters in `table`.
    private static let values: [String?] = [
        nil, "null", "true", "false", "7", "0", "-1", "1.5", #""""#, #""text""#, "[]", "{}", long,
    ]
    private static let table: [(field: String, outcomes: String)] = [
        // A verdict that is none at all is no answer; whatever is not a plain true is a no.
        ("authenticated", "u r a r r r r r r r r r r"),
        ("userID", "u u u u u u u u u a u u u"),
        ("expirationSeconds", "u u u u a u u u u u u u u"),
        ("permissions", "a a u u u u u u u u u a u"),
        ("clientInfo", "a a a a a a a a a a a a a"),
        ("identityServiceMetadata", "a a u u u u u u u u u a u"),
        ("somethingElse", "a a a a a a a a a a a a a"),
    ]

    static let cases: [Case] =
        table.flatMap { row in
            zip(values, row.outcomes.split(separator: " ")).map { value, outcome in
                Case(
                    field: row.field, value: value,
                    outcome: outcome == "a" ? .accepted : outcome == "r" ? .refused : .unusable)
            }
        } + limits.map { Case(field: $0, value: $1, outcome: $2) }

    private static let limits: [(String, String, Outcome)] = [
        ("userID", text(Limits.userIDBytes), .accepted), ("userID", text(Limits.userIDBytes + 1), .unusable),
        ("expirationSeconds", "1", .accepted), ("expirationSeconds", "4294967295", .accepted),
        ("expirationSeconds", "4294967296", .unusable), ("expirationSeconds", "60.0", .accepted),
        ("expirationSeconds", "1e300", .unusable),
        ("expirationSeconds", "99999999999999999999999999", .unusable),
        ("expirationSeconds", #""60""#, .unusable),
        ("permissions", #"{"read":1}"#, .unusable), ("permissions", #"{"read":[]}"#, .unusable),
        ("permissions", #"{"read":{"everything":"yes"}}"#, .unusable),
        ("permissions", #"{"read":{"everything":1}}"#, .unusable),
        ("permissions", #"{"write":{"queriesByCollection":[]}}"#, .unusable),
        ("permissions", #"{"write":{"queriesByCollection":{"c":"true"}}}"#, .unusable),
        ("permissions", #"{"write":{"queriesByCollection":{"c":[true]}}}"#, .unusable),
        ("permissions", #"{"write":{"queriesByCollection":{"c":["a == 1"]}}}"#, .unusable),
        ("permissions", #"{"write":{"queriesByCollection":{"c":["_id == 1"]}}}"#, .accepted),
        ("permissions", #"{"qlVersion":2}"#, .unusable), ("permissions", #"{"qlVersion":"1"}"#, .unusable),
        ("permissions", #"{"remoteQuery":"no"}"#, .unusable),
        ("permissions", #"{"another":[1,2]}"#, .unusable), ("permissions", deep, .unusable),
        ("permissions", #"{"read":{"evrything":true}}"#, .unusable),
        ("permissions", #"{"remoteQuery":null,"write":null}"#, .accepted),
        (
            "permissions",
            #"{"read":{"queriesByCollection":{"c":["#
                + Array(repeating: "\"true\"", count: 2_000).joined(separator: ",") + "]}}}", .unusable
        ),
        ("identityServiceMetadata", #"{"a":\#(text(Limits.metadataBytes - 8))}"#, .accepted),
        ("identityServiceMetadata", #"{"a":\#(text(Limits.metadataBytes - 7))}"#, .unusable),
    ]

    @Test("what a field says decides, whatever the others say", arguments: cases)
    func field(_ test: Case) throws {
        var members = [
            "authenticated": "true", "userID": #""ada""#, "expirationSeconds": "60",
            "permissions": #"{"read":{"everything":true}}"#, "clientInfo": #"{"a":1}"#,
        ]
        members[test.field] = test.value
        let text = "{" + members.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",") + "}"
        let answer = try? WebhookAnswer.read(Array(text.utf8), status: 200)
        switch answer {
        case .accepted(let login)?:
            #expect(test.outcome == .accepted)
            #expect(!login.userID.isEmpty && login.seconds > 0)
            // What is missing grants nothing.
            let gives = test.field == "permissions" ? false : true
            #expect(login.grant.read.everything == gives && !login.grant.write.everything)
        case .refused?: #expect(test.outcome == .refused)
        case nil: #expect(test.outcome == .unusable)
        }
    }

    @Test("there is a row for every field that is read")
    func complete() {
        let read: Set = [
            "authenticated", "userID", "expirationSeconds", "permissions", "clientInfo",
            "identityServiceMetadata",
        ]
        #expect(Set(Self.table.map(\.field)).isSuperset(of: read))
        #expect(Self.table.allSatisfy { $0.outcomes.split(separator: " ").count == Self.values.count })
    }

    @Test("of the two spellings of a field the current one counts, also where it says no")
    func spellings() throws {
        func read(_ text: String) throws -> ProviderAnswer {
            try WebhookAnswer.read(Array(text.utf8), status: 200)
        }
        let no = try read(#"{"authenticated":false,"authenticate":true,"clientInfo":"a","userInfo":"b"}"#)
        #expect(no == .refused(clientInfo: "a"))
        let old = try read(#"{"authenticate":false,"userInfo":"b"}"#)
        #expect(old == .refused(clientInfo: "b"))
    }
}
