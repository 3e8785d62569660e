import CRDT
import Crypto
import Foundation
import Testing

@testable import Identity

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

    /// One key as `openssl ecparam -genkey` writes it, and its DER by `openssl ec -outform DER`.
    private static let sec1 = [
        "MHcCAQEEIAESiljZQN34VUFj5gV2YPe1upBl2TtGwuqqIGWrLZpgoAoGCCqGSM49",
        "AwEHoUQDQgAEze2u4oDYdavq6UQapA23db4/mBv2qOab6BMIUEl5ltT5fGnTKr0v",
        "53mBdUUcg5sywwE4dpGkPXuQWTwN8e0V+Q==",
    ]
    /// The same by `openssl pkcs8 -topk8 -nocrypt`.
    private static let pkcs8 = [
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgARKKWNlA3fhVQWPm",
        "BXZg97W6kGXZO0bC6qogZastmmChRANCAATN7a7igNh1q+rpRBqkDbd1vj+YG/ao",
        "5pvoEwhQSXmW1Pl8adMqvS/neYF1RRyDmzLDATh2kaQ9e5BZPA3x7RX5",
    ]

    private static func pem(_ type: String, _ lines: [String]) -> String {
        "-----BEGIN \(type)-----\n" + lines.joined(separator: "\n") + "\n-----END \(type)-----\n"
    }

    @Test("a shared key is read as openssl writes it: PEM of both kinds, and base64 of the DER of both")
    func sharedKey() throws {
        let parameters = Self.pem("EC PARAMETERS", ["BggqhkjOPQMBBw=="])
        let old = Self.pem("EC PRIVATE KEY", Self.sec1)
        let texts = [
            parameters + old, old, Self.pem("PRIVATE KEY", Self.pkcs8), Self.sec1.joined(),
            Self.sec1.joined(separator: "\n") + "\n", Self.pkcs8.joined(),
            " " + Self.pkcs8.joined(separator: "\r\n") + "\r\n",
        ]
        let names = try Set(texts.map { try PeerKey(sharedKey: $0).publicKeyString })
        #expect(names == ["pkA83truKA2HWr6ulEGqQNt3W-P5gb9qjmm-gTCFBJeZbU"])
        let key = PeerKey()
        #expect(try PeerKey(sharedKey: key.pem).publicKeyString == key.publicKeyString)
    }

    @Test("any other text is no shared key: a public key, two keys, another curve, a key with a password")
    func noSharedKey() throws {
        let key = P256.Signing.PrivateKey()
        let texts: [String] = [
            "", "AAAA", "no key", key.publicKey.pemRepresentation, PeerKey().pem + PeerKey().pem,
            P384.Signing.PrivateKey().pemRepresentation,
            PeerKey().pem.replacingOccurrences(of: "PRIVATE KEY", with: "CERTIFICATE"),
            String(repeating: "A", count: Limits.sharedKeyBytes + 4), String(PeerKey().pem.dropLast(60)),
        ]
        for text in texts {
            #expect(code { _ = try PeerKey(sharedKey: text) } == .peerKeyInvalid, "\(text)")
        }
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
