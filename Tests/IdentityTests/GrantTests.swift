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
