import Crypto
import Foundation
import Testing

@testable import Identity

@Suite("Access tokens")
struct AccessTokenTests {
    let fixture: Fixture

    init() throws { fixture = try Fixture() }

    /// A token with our key's signature over claims, and a header, that no honest issuer makes.
    private func forged(
        keyID: String? = "cars.1", algorithm: String = "ES256", _ change: (inout Claims) -> Void = { _ in }
    ) -> String {
        var claims = fixture.claims()
        change(&claims)
        return AccessToken.sign(claims, keyID: keyID, algorithm: algorithm, with: fixture.key)
    }

    @Test("a token that was issued is the identity it was issued for")
    func roundTrip() throws {
        let identity = Identity(
            userID: "ada", databaseID: "cars", peerKey: PeerKey().publicKeyString, grant: .readOnly,
            expiresAtSeconds: Fixture.now + 60, issuedAtSeconds: Fixture.now, tokenID: AccessToken.newID(),
            signedBy: fixture.key.keyID)
        let token = AccessToken.issue(identity, with: fixture.key, nowSeconds: Fixture.now)
        #expect(try fixture.verify(token) == identity)
        #expect(try fixture.verify(token, databaseID: "cars") == identity)
    }

    @Test(
        "what is no token is refused as malformed",
        arguments: ["", "a.b", "a.b.c", "a.b.c.d", "{}.{}.{}", "é.é.é"])
    func malformed(text: String) {
        #expect(code { _ = try fixture.verify(text) } == .tokenMalformed)
    }

    @Test("a payload that is signed but lacks a claim, or has an empty user, is refused as malformed")
    func claimsMissing() {
        #expect(code { _ = try fixture.verify(forged { $0.sub = "" }) } == .tokenMalformed)
        let parts = forged().split(separator: ".")
        let body = "\(parts[0]).\(Base64URL.encode(Array("{}".utf8)))"
        let signature = try? fixture.key.privateKey.signature(for: Data(body.utf8)).rawRepresentation
        let token = "\(body).\(Base64URL.encode(signature ?? Data()))"
        #expect(code { _ = try fixture.verify(token) } == .tokenMalformed)
    }

    @Test(
        "an algorithm other than ES256 is refused, also with our signature",
        arguments: ["none", "HS256", "ES384", "es256"])
    func algorithm(name: String) {
        #expect(code { _ = try fixture.verify(forged(algorithm: name)) } == .tokenAlgorithm)
    }

    @Test("an unsigned token is refused")
    func unsigned() {
        let parts = forged(algorithm: "none").split(separator: ".")
        #expect(code { _ = try fixture.verify("\(parts[0]).\(parts[1]).") } == .tokenAlgorithm)
        let honest = forged().split(separator: ".")
        #expect(code { _ = try fixture.verify("\(honest[0]).\(honest[1]).") } == .tokenSignature)
    }

    @Test("a critical extension is refused")
    func critical() {
        let header = Base64URL.encode(Array(#"{"alg":"ES256","kid":"cars.1","crit":["exp"]}"#.utf8))
        let rest = forged().split(separator: ".").dropFirst().joined(separator: ".")
        #expect(code { _ = try fixture.verify("\(header).\(rest)") } == .tokenAlgorithm)
    }

    @Test(
        "a key id that is not in the set, is missing or is no key id is refused",
        arguments: ["cars.2", "boats.1", nil, "", "../cars.1", "cars.01", "cars.1.1"])
    func keyID(text: String?) {
        #expect(code { _ = try fixture.verify(forged(keyID: text)) } == .tokenKeyUnknown)
    }

    @Test("the public key is no secret that signs: HMAC with any form of it is refused by its algorithm")
    func keyConfusion() throws {
        let parts = forged().split(separator: ".")
        let header = Base64URL.encode(Array(#"{"alg":"HS256","kid":"cars.1","typ":"JWT"}"#.utf8))
        let key = try P256.Signing.PublicKey(
            compressedRepresentation: Base64URL.decode(fixture.key.publicKey.compressedPoint) ?? [])
        for secret in [
            Data(key.pemRepresentation.utf8), key.derRepresentation, key.rawRepresentation,
            key.x963Representation, Data(fixture.keys.json()),
        ] {
            let signed = Data("\(header).\(parts[1])".utf8)
            let tag = Array(
                HMAC<SHA256>.authenticationCode(for: signed, using: SymmetricKey(data: secret)))
            for text in [header, String(parts[0])] {
                let token = "\(text).\(parts[1]).\(Base64URL.encode(tag))"
                #expect([.tokenAlgorithm, .tokenSignature].contains(refusal(of: token)))
            }
        }
    }

    private func refusal(of token: String) -> IdentityErrorCode? {
        code { _ = try fixture.verify(token) }
    }

    @Test("a signature on another curve is refused, whatever the header says of it")
    func wrongCurve() throws {
        let parts = forged().split(separator: ".")
        let key = P384.Signing.PrivateKey()
        for (name, expected) in [("ES384", IdentityErrorCode.tokenAlgorithm), ("ES256", .tokenSignature)] {
            let header = Base64URL.encode(Array(#"{"alg":"\#(name)","kid":"cars.1"}"#.utf8))
            let signature = try key.signature(for: Data("\(header).\(parts[1])".utf8))
            for bytes in [signature.rawRepresentation, signature.rawRepresentation.prefix(64)] {
                let token = "\(header).\(parts[1]).\(Base64URL.encode(Array(bytes)))"
                #expect(refusal(of: token) == expected)
            }
        }
        // DER instead of the raw form is another spelling of a good signature, and none of ours.
        let signed = "\(parts[0]).\(parts[1])"
        let good = try fixture.key.privateKey.signature(for: Data(signed.utf8))
        let der = Base64URL.encode(Array(good.derRepresentation))
        #expect(refusal(of: "\(signed).\(der)") == .tokenSignature)
    }

    @Test(
        "a header cannot bring its own key, name two, or be read in two ways",
        arguments: [
            #"{"alg":"ES256","kid":"cars.1","jwk":{"kty":"EC"}}"#, #"{"alg":"ES256","kid":["cars.1"]}"#,
            #"{"alg":"ES256","kid":"cars.1\u0000"}"#, #"{"alg":["ES256"],"kid":"cars.1"}"#,
            #"{"alg":"ES256","kid":"https://evil.example/cars.1"}"#, #"{"alg":"ES256","jku":"https://x"}"#,
        ])
    func headers(header: String) throws {
        // Signed by a stranger's key: nothing in the header makes it be believed.
        let stranger = try DatabaseSigningKey(databaseID: "cars", number: 1)
        let body = "\(Base64URL.encode(Array(header.utf8))).\(forged().split(separator: ".")[1])"
        let signature = try stranger.privateKey.signature(for: Data(body.utf8)).rawRepresentation
        let found = refusal(of: "\(body).\(Base64URL.encode(Array(signature)))")
        #expect([.tokenSignature, .tokenKeyUnknown, .tokenMalformed].contains(found))
    }

    @Test("another key's signature is refused")
    func otherKey() throws {
        let other = try DatabaseSigningKey(databaseID: "cars", number: 1)
        let token = AccessToken.issue(fixture.identity(), with: other, nowSeconds: Fixture.now)
        #expect(code { _ = try fixture.verify(token) } == .tokenSignature)
    }

    @Test("a changed payload and a changed signature are refused")
    func changed() {
        let parts = forged().split(separator: ".")
        let payload = Base64URL.encode(Array("{\"exp\":99}".utf8))
        #expect(code { _ = try fixture.verify("\(parts[0]).\(payload).\(parts[2])") } == .tokenSignature)
        let zeros = Base64URL.encode([UInt8](repeating: 0, count: 64))
        #expect(code { _ = try fixture.verify("\(parts[0]).\(parts[1]).\(zeros)") } == .tokenSignature)
    }

    @Test("a token ends on the second of its expiry")
    func expiry() throws {
        let token = AccessToken.issue(
            fixture.identity(expiresAtSeconds: Fixture.now + 10), with: fixture.key, nowSeconds: Fixture.now)
        #expect(try fixture.verify(token, at: Fixture.now + 9).userID == "ada")
        #expect(code { _ = try fixture.verify(token, at: Fixture.now + 10) } == .tokenExpired)
    }

    @Test("a token from the future is refused beyond a minute of clock skew")
    func notYet() throws {
        #expect(try fixture.verify(forged { $0.nbf = Fixture.now + 60 }).userID == "ada")
        #expect(code { _ = try fixture.verify(forged { $0.nbf = Fixture.now + 61 }) } == .tokenNotYetValid)
        #expect(code { _ = try fixture.verify(forged { $0.iat = Fixture.now + 61 }) } == .tokenNotYetValid)
    }

    @Test("one database's key signs nothing for another, and a caller's database must be the token's")
    func database() {
        #expect(code { _ = try fixture.verify(forged { $0.db = "boats" }) } == .tokenDatabase)
        #expect(code { _ = try fixture.verify(forged(), databaseID: "boats") } == .tokenDatabase)
    }

    @Test("another issuer is refused")
    func issuer() {
        #expect(code { _ = try fixture.verify(forged { $0.iss = "https://example.com" }) } == .tokenIssuer)
    }

    @Test("a token over the limit is refused unread")
    func tooLarge() {
        let long = String(repeating: "a", count: Limits.tokenBytes + 1)
        #expect(code { _ = try fixture.verify(long) } == .tokenTooLarge)
    }

    @Test("a grant that cannot be enforced makes the token useless")
    func grant() {
        let partial = Grant(read: AccessRules(queriesByCollection: ["cars": ["color == 'x'"]]))
        #expect(code { _ = try fixture.verify(forged { $0.grant = partial }) } == .grantNotEnforceable)
    }

    @Test("all refusals of a token say the same")
    func oneMessage() {
        let tokens = ["x", forged(algorithm: "none"), forged(keyID: "boats.1"), forged { $0.iss = "x" }]
        let messages = tokens.map { token in
            #expect(throws: IdentityError.self) { try fixture.verify(token) }?.message
        }
        #expect(Set(messages).count == 1)
    }
}
