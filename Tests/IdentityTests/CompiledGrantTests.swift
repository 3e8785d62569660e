import CRDT
import Foundation
import Testing

@testable import Identity

@Suite("Compiled grants")
struct CompiledGrantTests {
    private func rules(_ queries: [String: [String]], everything: Bool = false, language: Int = 1) throws
        -> CompiledRules
    {
        let side = AccessRules(everything: everything, queriesByCollection: queries)
        let compiled = try CompiledGrant(Grant(read: side, queryLanguage: language))
        #expect(!compiled.write.allowsAnything)
        return compiled.read
    }

    @Test("a document is allowed where one of its collection's queries holds for its id")
    func documents() throws {
        let rules = try rules(["orders": ["_id.user = 'ada'", "_id = 'all'"], "docs": ["true"], "none": []])
        let ada = try DocumentID(["user": "ada", "n": 1])
        #expect(rules.allows("orders", ada))
        #expect(rules.allows("orders", try DocumentID("all")))
        #expect(!rules.allows("orders", try DocumentID(["user": "bob"])))
        #expect(rules.allows("docs", try DocumentID("x")))
        #expect(!rules.allows("cars", ada) && !rules.allows("none", ada))
        #expect(rules.allowsAny(of: "orders") && !rules.allowsAll(of: "orders"))
        #expect(rules.allowsAny(of: "docs") && rules.allowsAll(of: "docs"))
        #expect(!rules.allowsAny(of: "none") && !rules.allowsAny(of: "cars"))
    }

    @Test("everything allows every document, whatever the queries say")
    func everything() throws {
        let rules = try rules(["orders": ["_id = 1"]], everything: true)
        #expect(rules.allowsAll(of: "orders") && rules.allowsAll(of: "cars"))
        #expect(rules.allows("orders", try DocumentID(2)))
    }

    @Test("qlVersion says which language the queries are in")
    func languages() throws {
        let legacy = try rules(["c": ["_id == 'a' && _id != 'b'"]], language: 0)
        #expect(legacy.allows("c", try DocumentID("a")))
        #expect(code { _ = try rules(["c": ["_id LIKE 'a%'"]], language: 0) } == .grantNotEnforceable)
        #expect(try rules(["c": ["_id LIKE 'a%'"]]).allows("c", DocumentID("abc")))
    }

    @Test("other rights on a collection have another mark, the same rights the same")
    func marks() throws {
        let one = try rules(["c": ["_id = 1", "_id = 2"], "d": ["true"]])
        #expect(one.mark(of: "x") == 0)
        #expect(one.mark(of: "d") == 1)
        #expect(one.mark(of: "c") > 1)
        #expect(try rules(["c": ["_id = 2", "_id = 1"]]).mark(of: "c") == one.mark(of: "c"))
        #expect(try rules(["c": ["_id = 1"]]).mark(of: "c") != one.mark(of: "c"))
        #expect(try rules([:], everything: true).mark(of: "c") == 1)
    }

    @Test("an identity whose grant cannot be enforced may do nothing")
    func unenforceable() throws {
        let rules = AccessRules(everything: true, queriesByCollection: ["c": ["color = 1"]])
        let identity = Identity(
            userID: "a", databaseID: "d", peerKey: nil, grant: Grant(read: rules, queryLanguage: 1),
            expiresAtSeconds: 1)
        #expect(identity.rights == .nothing)
        #expect(!identity.rights.read.allowsAnything)
    }

    @Test("an API key is read as it was written, and nothing that only looks like one is")
    func apiKeys() throws {
        let key = APIKey()
        #expect(key.text.count == 6 + 16 + 1 + 43)
        let read = try #require(APIKey(key.text))
        #expect(read.id == key.id && read.secretHash == key.secretHash && read.text == key.text)
        #expect(APIKey().text != key.text)
        for text in ["", "mimeo_", String(key.text.dropLast()), key.text + "A", key.text.uppercased()] {
            #expect(APIKey(text) == nil, "\(text)")
        }
        #expect(!APIKey.isOne("eyJhbGciOiJFUzI1NiJ9.e30.x"))
    }

    @Test("texts are compared whole")
    func constantTime() {
        #expect(ConstantTime.equal("secret", "secret"))
        for other in ["", "secre", "secrets", "secretsecret", "Secret"] {
            #expect(!ConstantTime.equal(other, "secret"))
        }
        #expect(!ConstantTime.equal("", ""))
    }
}
