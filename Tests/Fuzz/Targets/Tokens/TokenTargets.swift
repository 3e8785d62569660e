import CRDT
import Foundation
import Identity

/// Credentials that a stranger may send: tokens, key sets, API keys, answers to challenges, certificates and
/// requests for them. A key of the process stands for a database's.
private enum Believed {
    static let now: Int64 = 1_800_000_000

    static let key: DatabaseSigningKey = {
        guard let key = try? DatabaseSigningKey(databaseID: "fuzz", number: 1) else {
            fatalError("FUZZ: a database's key cannot be made")
        }
        return key
    }()
    static let keys = KeySet([key.publicKey])
    static let peer = PeerKey()
    static let identity = Identity(
        userID: "u", databaseID: "fuzz", peerKey: peer.publicKeyString, grant: .everything,
        expiresAtSeconds: now + 60)
}

/// The text of a token, as it comes in a header: nobody but the key's holder makes one that is believed.
@Sendable func fuzzToken(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let id = try? AccessToken.keyID(of: text) {
        require(KeyID(id.description) == id, "a key's id does not survive its text")
    }
    require(
        (try? AccessToken.verify(text, keys: Believed.keys, nowSeconds: Believed.now)) == nil,
        "a token that nobody signed is believed")
    if let rules = AccessToken.claimedWriteRules(of: text) {
        _ = (try? DocumentID(.int(1))).map { rules(DocumentKey(collection: "c", id: $0)) }
    }
    if let key = APIKey(text) { require(key.text == text, "an API key has two texts") }
    if let challenge = PeerChallenge(text) {
        require(challenge.text == text, "a challenge has two texts")
    }
    let peer = (try? PeerKey.validate(publicKeyString: text)) != nil ? text : Believed.peer.publicKeyString
    require(
        !PeerChallenge().isAnswered(by: Array(bytes.prefix(64)), of: peer, databaseID: "fuzz", token: text),
        "a challenge is answered by what nobody signed")
}

/// The claims of a token that the database's own key signed: what is believed says what its text says.
@Sendable func fuzzClaims(_ bytes: [UInt8]) {
    let header = Array(#"{"alg":"ES256","kid":"fuzz.1","typ":"JWT"}"#.utf8)
    let text = AccessToken.sealed(header: header, payload: bytes, with: Believed.key)
    guard
        let identity = try? AccessToken.verify(
            text, keys: Believed.keys, databaseID: "fuzz", nowSeconds: Believed.now)
    else { return }
    require(identity.databaseID == "fuzz" && !identity.userID.isEmpty, "a token of nobody is believed")
    require(identity.expiresAtSeconds > Believed.now, "a token is believed after its end")
    guard identity.issuedAtSeconds <= Believed.now, identity.rights.grant == identity.grant else { return }
    let again = AccessToken.issue(
        identity, with: Believed.key, nowSeconds: min(identity.issuedAtSeconds, Believed.now))
    guard again.utf8.count <= AccessToken.maximumBytes else { return }
    require(
        (try? AccessToken.verify(again, keys: Believed.keys, nowSeconds: Believed.now)) == identity,
        "an identity does not survive being issued")
}

/// A key set, as another service fetches it.
@Sendable func fuzzKeySet(_ bytes: [UInt8]) {
    guard let set = try? KeySet(json: bytes) else { return }
    require((try? KeySet(json: set.json())) == set, "a key set does not survive its text")
}

/// A certificate that a peer shows: nobody but the authority makes one that is believed.
@Sendable func fuzzCertificate(_ bytes: [UInt8]) {
    require(
        (try? PeerCertificate.verify(
            bytes, authorities: Believed.keys, databaseID: "fuzz", nowSeconds: Believed.now)) == nil,
        "a certificate that nobody signed is believed")
    _ = PeerCertificate.der(pem: String(decoding: bytes, as: UTF8.self))
}

/// A request for a certificate, in PEM: good for the key that signed it alone, which is no fuzzer's.
@Sendable func fuzzRequest(_ bytes: [UInt8]) {
    let text = bytes.starts(with: Array("-----".utf8)) ? String(decoding: bytes, as: UTF8.self) : pem(bytes)
    require(
        (try? PeerCertificate.issue(
            to: Believed.identity, request: text, with: Believed.key, nowSeconds: Believed.now)) == nil,
        "a certificate is given for a request that the peer has not signed")
}

/// DER in PEM, so that the mutator works on the structure.
private func pem(_ bytes: [UInt8]) -> String {
    let body = Data(bytes).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
    return "-----BEGIN CERTIFICATE REQUEST-----\n\(body)\n-----END CERTIFICATE REQUEST-----"
}

extension FuzzTarget {
    /// The targets that need the libraries of tokens and certificates.
    static let tokens: [FuzzTarget] = [
        FuzzTarget(name: "token", maximumLengthBytes: 4_096, run: fuzzToken),
        FuzzTarget(name: "claims", maximumLengthBytes: 4_096, run: fuzzClaims),
        FuzzTarget(name: "keyset", maximumLengthBytes: 4_096, run: fuzzKeySet),
        FuzzTarget(name: "certificate", maximumLengthBytes: 4_096, run: fuzzCertificate),
        FuzzTarget(name: "request", maximumLengthBytes: 4_096, run: fuzzRequest),
    ]
}
