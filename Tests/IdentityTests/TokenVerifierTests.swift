import CRDT
import Identity
import Testing

@Suite("Token verifier")
struct TokenVerifierTests {
    let fixture: Fixture
    let token: String

    init() throws {
        fixture = try Fixture()
        token = AccessToken.issue(fixture.identity(), with: fixture.key, nowSeconds: Fixture.now)
    }

    @Test("an accepted token is remembered, and still ends at its expiry and in its database")
    func remembered() throws {
        var verifier = TokenVerifier(keys: fixture.keys)
        #expect(try verifier.verify(token, nowSeconds: Fixture.now).userID == "ada")
        #expect(verifier.rememberedCount == 1)
        #expect(try verifier.verify(token, databaseID: "cars", nowSeconds: Fixture.now).userID == "ada")
        #expect(
            code { _ = try verifier.verify(token, databaseID: "boats", nowSeconds: Fixture.now) }
                == .tokenDatabase)
        #expect(code { _ = try verifier.verify(token, nowSeconds: Fixture.now + 3600) } == .tokenExpired)
        #expect(verifier.rememberedCount == 0)
    }

    @Test("a refused token is not remembered")
    func refused() {
        var verifier = TokenVerifier(keys: fixture.keys)
        #expect(code { _ = try verifier.verify(token + "x", nowSeconds: Fixture.now) } == .tokenSignature)
        #expect(verifier.rememberedCount == 0)
    }

    @Test("tokens of one role share a grant, and a name spelled in other bytes is another collection")
    func sharedGrants() throws {
        var verifier = TokenVerifier(keys: fixture.keys)
        let names: [CollectionName] = ["caf\u{E9}", "cafe\u{301}"]
        for (number, name) in (names + names).enumerated() {
            let rules = AccessRules(queriesByCollection: [name: ["true"]])
            let identity = fixture.identity(
                grant: Grant(read: rules), expiresAtSeconds: Fixture.now + 100 + Int64(number))
            let token = AccessToken.issue(identity, with: fixture.key, nowSeconds: Fixture.now)
            let found = try verifier.verify(token, nowSeconds: Fixture.now).rights
            for other in names {
                #expect(found.read.allowsAny(of: other) == other.text.utf8.elementsEqual(name.text.utf8))
                #expect(!found.write.allowsAny(of: other))
            }
        }
        // As many roles as there are users are not all kept, and each gets its own.
        for number in 0..<600 {
            let (name, other) = (CollectionName("c\(number)"), CollectionName("c\(number + 1)"))
            let rules = AccessRules(queriesByCollection: [name: ["true"]])
            let identity = fixture.identity(grant: Grant(read: rules, write: rules))
            let token = AccessToken.issue(identity, with: fixture.key, nowSeconds: Fixture.now)
            let rights = try verifier.verify(token, nowSeconds: Fixture.now).rights
            #expect(rights.read.allowsAny(of: name) && !rights.read.allowsAny(of: other))
            #expect(rights.write.allowsAny(of: name))
        }
    }

    @Test("replacing the keys forgets what they no longer vouch for")
    func replaced() throws {
        var verifier = TokenVerifier(keys: fixture.keys)
        _ = try verifier.verify(token, nowSeconds: Fixture.now)
        verifier.replaceKeys(fixture.keys)
        #expect(verifier.rememberedCount == 1)
        verifier.replaceKeys(KeySet([try DatabaseSigningKey(databaseID: "cars", number: 1).publicKey]))
        #expect(verifier.rememberedCount == 0)
        #expect(code { _ = try verifier.verify(token, nowSeconds: Fixture.now) } == .tokenSignature)
        verifier.replaceKeys(KeySet())
        #expect(code { _ = try verifier.verify(token, nowSeconds: Fixture.now) } == .tokenKeyUnknown)
    }

    @Test("the memory stays within its bound and every token stays valid")
    func bounded() throws {
        var verifier = TokenVerifier(keys: fixture.keys, capacity: 4)
        let tokens = (0..<Int64(12)).map { number in
            AccessToken.issue(
                fixture.identity(expiresAtSeconds: Fixture.now + 100 + number), with: fixture.key,
                nowSeconds: Fixture.now)
        }
        for token in tokens {
            _ = try verifier.verify(token, nowSeconds: Fixture.now)
            #expect(verifier.rememberedCount <= 4)
        }
        #expect(try verifier.verify(tokens[0], nowSeconds: Fixture.now).userID == "ada")
    }

    @Test("it says which tokens name a key it does not know")
    func unknownKeys() {
        let verifier = TokenVerifier(keys: fixture.keys)
        #expect(verifier.knowsKey(of: token) == true)
        #expect(TokenVerifier().knowsKey(of: token) == false)
        #expect(verifier.knowsKey(of: "nonsense") == nil)
    }
}
