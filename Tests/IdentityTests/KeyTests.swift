import CRDT
import Foundation
import Identity
import Testing

@Suite("Keys")
struct KeyTests {
    @Test("a signing key survives its PEM")
    func signingKeyPEM() throws {
        let fixture = try Fixture()
        let stored = try DatabaseSigningKey(keyID: fixture.key.keyID, pem: fixture.key.pem)
        let token = AccessToken.issue(fixture.identity(), with: stored, nowSeconds: Fixture.now)
        #expect(try fixture.verify(token).userID == "ada")
    }

    @Test("what is no signing key is refused")
    func signingKeyInvalid() throws {
        let id = try KeyID(databaseID: "cars", number: 1)
        #expect(code { _ = try DatabaseSigningKey(keyID: id, pem: "nonsense") } == .signingKeyInvalid)
        #expect(code { _ = try KeyID(databaseID: "cars", number: 0) } == .signingKeyInvalid)
    }

    @Test("a database id is 1 to 128 letters, digits, hyphens and underscores")
    func databaseID() {
        #expect(DatabaseID("5f0c_A-9").isValid)
        #expect(DatabaseID(String(repeating: "a", count: 128)).isValid)
        for text in ["", "a.b", "a/b", "..", "é", "a b", String(repeating: "a", count: 129)] {
            #expect(code { try DatabaseID(text).validate() } == .databaseIDInvalid, "\(text)")
        }
    }

    @Test("a peer key survives its PEM and is named by its compressed point")
    func peerKey() throws {
        let key = PeerKey()
        #expect(try PeerKey(pem: key.pem).publicKeyString == key.publicKeyString)
        #expect(key.publicKeyString.hasPrefix("pk"))
        #expect(key.publicKeyString.count == 46)
        try PeerKey.validate(publicKeyString: key.publicKeyString)
    }

    @Test("a shared key is read from base64 of its DER")
    func sharedKey() throws {
        let key = PeerKey()
        let body = key.pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
        #expect(try PeerKey(base64DER: body).publicKeyString == key.publicKeyString)
        #expect(code { _ = try PeerKey(base64DER: "AAAA") } == .peerKeyInvalid)
    }

    @Test("what is no peer key is refused", arguments: ["", "pk", "xxAAAA", "pkAAAA", "pk+/=="])
    func peerKeyInvalid(text: String) {
        #expect(code { try PeerKey.validate(publicKeyString: text) } == .peerKeyInvalid)
        #expect(code { _ = try PeerKey(pem: text) } == .peerKeyInvalid)
    }

    @Test("a key set survives its JSON")
    func keySet() throws {
        let keys = KeySet([
            try DatabaseSigningKey(databaseID: "cars", number: 1).publicKey,
            try DatabaseSigningKey(databaseID: "cars", number: 2).publicKey,
            try DatabaseSigningKey(databaseID: "boats", number: 1).publicKey,
        ])
        #expect(try KeySet(json: keys.json()) == keys)
        #expect(keys.count == 3)
    }

    @Test("keys of others in a key set are passed over")
    func foreignKeys() throws {
        let text =
            #"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},"#
            + #"{"kty":"EC","crv":"P-256","kid":"x","x":"","y":""}]}"#
        #expect(try KeySet(json: Array(text.utf8)).count == 0)
    }

    @Test(
        "what is no key set is refused",
        arguments: [
            "", "[]", "{}", #"{"keys":[{"kty":"EC","crv":"P-256","kid":"cars.1","x":"AA","y":"AA"}]}"#,
            #"{"keys":[{"kty":"EC","crv":"P-384","kid":"cars.1","x":"AA","y":"AA"}]}"#,
        ])
    func keySetInvalid(text: String) {
        #expect(code { _ = try KeySet(json: Array(text.utf8)) } == .keySetInvalid)
    }

    @Test("base64url has one text for one sequence of bytes")
    func base64URL() {
        #expect(Base64URL.encode([251, 255]) == "-_8")
        #expect(Base64URL.decode("-_8") == [251, 255])
        #expect(Base64URL.decode("") == [])
        for text in ["-_8=", "+/8", "-_9", "a", "a b", "é"] {
            #expect(Base64URL.decode(text) == nil, "\(text)")
        }
    }
}
