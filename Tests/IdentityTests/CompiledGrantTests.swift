import CRDT
import DQL
import Foundation
import Synchronization
import Testing

@testable import Identity

@Suite("Compiled grants")
struct CompiledGrantTests {
    private func rules(_ queries: [CollectionName: [String]], everything: Bool = false, language: Int = 1)
        throws
        -> CompiledRules
    {
        let side = AccessRules(everything: everything, queriesByCollection: queries)
        let compiled = try CompiledGrant(Grant(read: side, queryLanguage: language))
        #expect(!compiled.write.allowsAnything)
        return compiled.read
    }

    /// The nodes that are visited while a grant is compiled.
    private static func steps(_ rules: AccessRules) throws -> Int {
        let count = Atomic<Int>(0)
        try Preparation.interrupted(
            by: {
                count.add(1, ordering: .relaxed)
                return nil
            }
        ) { _ = try CompiledGrant(Grant(read: rules)) }
        return count.load(ordering: .relaxed)
    }

    @Test(
        "compiling takes as long as the queries are, in one collection or in many, and twice as many twice",
        arguments: [true, false])
    func growth(isOneCollection: Bool) throws {
        let steps = try [128, 256, 512, 1_024].map { count in
            let queries = (0..<count).map { number in
                (isOneCollection ? "c" : CollectionName("c\(number)"), ["_id == 'a\(number)'"])
            }
            return try Self.steps(
                AccessRules(
                    everything: false, queriesByCollection: Dictionary(queries, uniquingKeysWith: +)))
        }
        #expect(steps[0] > 128)
        for (before, after) in zip(steps, steps.dropFirst()) {
            #expect(abs(after - 2 * before) <= before / 10, "\(steps)")
        }
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
        #expect(!identity.rights.write.allowsAnything)
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

    @Test("no change of a token makes it count, nor of a request, and none traps", arguments: [1, 2, 3, 4])
    func mutated(seed: UInt64) throws {
        let fixture = try Fixture()
        let peer = PeerKey()
        let identity = Identity(
            userID: "ada", databaseID: "cars", peerKey: peer.publicKeyString, grant: .everything,
            expiresAtSeconds: Fixture.now + 60)
        let token = Array(AccessToken.issue(identity, with: fixture.key, nowSeconds: Fixture.now).utf8)
        let request = Array(peer.signingRequest().utf8)
        let base64 = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/".utf8)
        var state = seed
        func random(below bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
        func changed(_ bytes: [UInt8]) -> String {
            var bytes = bytes
            let place = random(below: bytes.count)
            switch random(below: 3) {
            case 0: bytes[place] = base64[random(below: base64.count)]
            case 1: bytes.remove(at: place)
            default: bytes.insert(base64[random(below: base64.count)], at: place)
            }
            return String(decoding: bytes, as: UTF8.self)
        }
        for _ in 0..<1_000 {
            let text = changed(token)
            guard !text.utf8.elementsEqual(token) else { continue }
            #expect(code { _ = try fixture.verify(text) } != nil, "\(text)")
        }
        for _ in 0..<300 {
            // A changed PEM may still be the same request; another key's it never is.
            let text = changed(request)
            let issued = try? PeerCertificate.issue(
                to: identity, request: text, with: fixture.key, nowSeconds: Fixture.now)
            #expect(issued?.identity.peerKey ?? peer.publicKeyString == peer.publicKeyString)
        }
    }

    @Test("texts are compared whole")
    func constantTime() {
        #expect(ConstantTime.equal("secret", "secret"))
        for other in ["", "secre", "secrets", "secretsecret", "Secret"] {
            #expect(!ConstantTime.equal(other, "secret"))
        }
        #expect(!ConstantTime.equal("", ""))
    }

    /// Bytes that count how often they are looked at.
    private final class Watched: RandomAccessCollection {
        private let bytes: [UInt8]
        private(set) var looks = 0

        init(_ text: String) { bytes = Array(text.utf8) }

        var startIndex: Int { 0 }
        var endIndex: Int { bytes.count }
        subscript(index: Int) -> UInt8 {
            looks += 1
            return bytes[index]
        }
    }

    @Test("as many bytes are looked at wherever a guess goes wrong, and whatever its length tells is its own")
    func lookedAt() {
        func looks(_ sent: String, _ kept: String = "a secret of some length") -> [Int] {
            let (sent, kept) = (Watched(sent), Watched(kept))
            _ = ConstantTime.same(sent, kept)
            return [sent.looks, kept.looks]
        }
        let right = looks("a secret of some length")
        #expect(right == [23, 23])
        for wrong in ["b secret of some length", "a secret of some lengti", "zzzzzzzzzzzzzzzzzzzzzzz"] {
            #expect(looks(wrong) == right)
        }
        #expect(looks("a secret") == looks("b_______"))
        #expect(looks("a secret") == looks("a secret", "short"))
    }
}
