import CRDT
import Foundation
import Identity
import Testing

@Suite("Grants")
struct GrantTests {
    private func grant(_ json: String) throws -> Grant {
        try JSONDecoder().decode(Grant.self, from: Data(json.utf8))
    }

    @Test("everything reads and writes every collection, nothing none")
    func extremes() {
        #expect(Grant.everything.allowsReading(collection: "cars"))
        #expect(Grant.everything.allowsWriting(collection: "cars"))
        #expect(Grant.readOnly.allowsReading(collection: "cars"))
        #expect(!Grant.readOnly.allowsWriting(collection: "cars"))
        #expect(!Grant.readOnly.allowsWritingAnything)
        #expect(!Grant.nothing.allowsReading(collection: "cars"))
        #expect(!Grant.nothing.allowsReadingAnything)
    }

    @Test("missing members of the permissions object grant nothing, unknown ones change nothing")
    func missing() throws {
        #expect(try grant("{}") == .nothing)
        #expect(try grant(#"{"read":{"everything":true},"role":"admin"}"#) == .readOnly)
    }

    @Test(
        "a member that no permissions object has is named, with the one that was meant",
        arguments: [
            (#"{"read":{},"wirte":{}}"#, "\"wirte\" is not a member of permissions; did you mean \"write\"?"),
            (#"{"READ":{}}"#, "\"READ\" is not a member of permissions; did you mean \"read\"?"),
            (#"{"role":1}"#, "\"role\" is not a member of permissions; it has \"read\", \"write\""),
            (#"{"read":{"everithing":true}}"#, "did you mean \"everything\"? it has"),
            (#"{"write":{"queries":{"a":["true"]}}}"#, "\"queries\" is not a member of permissions.write"),
        ])
    func misspelt(json: String, message: String) throws {
        let value = try JSONText.parse(Array(json.utf8))
        let error = try #require(throws: IdentityError.self) { try Grant.requireKnownMembers(of: value) }
        #expect(error.code == .grantMemberUnknown && error.message.contains(message), "\(error)")
    }

    @Test("collections may have any name, also that of a member")
    func namesOfCollections() throws {
        for json in [
            #"{"read":{"everything":false,"queriesByCollection":{"wirte":["true"],"read":[]}},"write":null}"#,
            #"{"qlVersion":1,"remoteQuery":true}"#, "{}", "7", #"{"read":7}"#,
        ] { try Grant.requireKnownMembers(of: JSONText.parse(Array(json.utf8))) }
    }

    @Test(
        "two names that only their bytes tell apart are refused in one side, and one of them in each is not",
        arguments: ["read", "write"])
    func namesAlike(side: String) throws {
        func permissions(_ names: [String]) throws -> Value {
            let members = names.map { "\"\($0)\":[\"true\"]" }.joined(separator: ",")
            let rules = "{\"queriesByCollection\":{\(members)}}"
            return try JSONText.parse(Array("{\"\(side)\":\(rules)}".utf8))
        }
        let alike = [
            ["caf\u{e9}", "cafe\u{301}"], ["a", "\u{212B}", "\u{C5}"], ["\u{AC00}", "\u{1100}\u{1161}"],
        ]
        for names in alike {
            let value = try permissions(names)
            let error = try #require(throws: IdentityError.self) { try Grant.requireKnownMembers(of: value) }
            #expect(
                error.code == .grantNamesAlike && error.message.contains("permissions.\(side)"), "\(error)")
        }
        for names in [["caf\u{e9}", "cafe"], ["cafe\u{301}"], ["A", "a"]] {
            try Grant.requireKnownMembers(of: permissions(names))
        }
    }

    @Test("a whole collection is granted by its exact bytes")
    func collection() throws {
        let grant = try grant(#"{"read":{"queriesByCollection":{"caf\u00e9":["true"],"cars":["_id == 1"]}}}"#)
        #expect(grant.allowsReading(collection: "caf\u{e9}"))
        #expect(!grant.allowsReading(collection: "cafe\u{301}"))
        #expect(!grant.allowsReading(collection: "cars"))
        #expect(!grant.allowsWriting(collection: "caf\u{e9}"))
    }

    @Test("a grant survives its JSON")
    func roundTrip() throws {
        let grant = Grant(
            read: .everything, write: AccessRules(queriesByCollection: ["cars": ["true"]]), remoteQuery: true,
            queryLanguage: 1)
        #expect(try JSONDecoder().decode(Grant.self, from: JSONEncoder().encode(grant)) == grant)
        try grant.requireEnforceable()
    }

    @Test("a query over anything but _id is refused, whatever else the grant holds")
    func notEnforceable() {
        let rules = AccessRules(everything: true, queriesByCollection: ["cars": ["true", "color == 1"]])
        #expect(code { try Grant(read: rules).requireEnforceable() } == .grantNotEnforceable)
        #expect(code { try Grant(write: rules).requireEnforceable() } == .grantNotEnforceable)
    }

    @Test("an unknown query language and too many queries are refused")
    func malformed() {
        #expect(code { try Grant(queryLanguage: 2).requireEnforceable() } == .grantMalformed)
        let many = Array(repeating: "true", count: Limits.queriesPerGrant + 1)
        let rules = AccessRules(queriesByCollection: ["cars": many])
        #expect(code { try Grant(read: rules).requireEnforceable() } == .grantMalformed)
    }

    @Test("what is outside a grant has a code of its own")
    func notPermitted() {
        #expect(IdentityError.notPermitted("write").code == .notPermitted)
        #expect(IdentityError.missingToken.code == .tokenMissing)
    }
}
