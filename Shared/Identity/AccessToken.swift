import CRDT
import Crypto
import Foundation

/// Access tokens: JWTs (RFC 7519) signed with ES256 by the database's key, and nothing else.
///
/// Header `{"alg":"ES256","kid":"<database>.<n>","typ":"JWT"}`, claims `iss`, `sub` (user), `db`, `pk`?
/// (peer key), `grant`, `jti` (token id), `meta`? (shown to peers), `iat`, `nbf`?, `exp`. Times are whole
/// seconds since 1970.
///
/// A signed URL has such a token, too, under an `iss` of its own, so that nobody takes it for a session's:
/// it opens the one attachment that its claim `att` names, as far as its grant reaches when it is used.
public enum AccessToken {
    /// The `iss` of every token. It names the role, not an address, so a server may move.
    public static let issuer = "urn:mimeo:auth-gateway"
    /// The `iss` of a signed URL's token.
    static let urlIssuer = "urn:mimeo:attachment-url"

    /// The longest accepted token, in bytes.
    public static let maximumBytes = Limits.tokenBytes

    /// A new token id: 128 random bits.
    public static func newID() -> String {
        var generator = SystemRandomNumberGenerator()
        return Base64URL.encode((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// A new token id for a login with an API key: the key's public part stands in it, so that the token ends
    /// with the key.
    public static func newID(ofAPIKey id: String) -> String { "\(keyPrefix)\(id):\(newID())" }

    /// The public part of the API key of a login, from the token's id; nil for another login.
    public static func apiKey(ofID id: String) -> String? {
        guard id.hasPrefix(keyPrefix) else { return nil }
        return String(id.dropFirst(keyPrefix.count).prefix { $0 != ":" })
    }

    private static let keyPrefix = "key:"

    /// Issues a token that is valid from `nowSeconds` on.
    /// - Parameters:
    ///   - identity: its database must be the key's; anything else is a defect of the caller.
    ///   - nowSeconds: seconds since 1970.
    public static func issue(_ identity: Identity, with key: DatabaseSigningKey, nowSeconds: Int64) -> String
    {
        precondition(
            identity.databaseID == key.keyID.databaseID, "a database's key signs only its own tokens")
        let claims = Claims(
            iss: issuer, sub: identity.userID, db: identity.databaseID.text, pk: identity.peerKey,
            grant: identity.grant, jti: identity.tokenID, meta: identity.metadata, iat: nowSeconds, nbf: nil,
            exp: identity.expiresAtSeconds)
        return sign(claims, keyID: key.keyID.description, algorithm: "ES256", with: key)
    }

    /// Issues the token of a signed URL: what the identity may read of one attachment, until its end.
    /// - Parameters:
    ///   - identity: its database must be the key's; anything else is a defect of the caller.
    ///   - attachment: the attachment's id.
    ///   - nowSeconds: seconds since 1970.
    public static func issueURL(
        _ identity: Identity, attachment: String, with key: DatabaseSigningKey, nowSeconds: Int64
    ) -> String {
        precondition(
            identity.databaseID == key.keyID.databaseID, "a database's key signs only its own tokens")
        let claims = Claims(
            iss: urlIssuer, sub: identity.userID, db: identity.databaseID.text, pk: identity.peerKey,
            grant: Grant(read: identity.grant.read, queryLanguage: identity.grant.queryLanguage),
            jti: identity.tokenID, iat: nowSeconds, exp: identity.expiresAtSeconds, att: attachment)
        return sign(claims, keyID: key.keyID.description, algorithm: "ES256", with: key)
    }

    /// Verifies a token from its text and the keys alone, without asking any service.
    /// - Parameters:
    ///   - token: untrusted text.
    ///   - keys: the trusted keys.
    ///   - attachment: the attachment that a signed URL asks for; nil for a session's token.
    ///   - databaseID: the database the caller is working on, when it knows one.
    ///   - nowSeconds: seconds since 1970.
    /// - Throws: `AUTH-0101` to `AUTH-0108`, `AUTH-0110`, `AUTH-0201`, `AUTH-0202`.
    public static func verify(
        _ token: String, keys: KeySet, attachment: String? = nil, databaseID: DatabaseID? = nil,
        nowSeconds: Int64
    ) throws(IdentityError) -> Identity {
        let compile = { (grant) throws(IdentityError) in try CompiledGrant(grant) }
        return try verify(
            token, keys: keys, attachment: attachment, databaseID: databaseID, nowSeconds: nowSeconds,
            compiling: compile)
    }

    /// As above; `compile` may return a grant that was compiled before.
    static func verify(
        _ token: String, keys: KeySet, attachment: String? = nil, databaseID: DatabaseID?,
        nowSeconds: Int64,
        compiling compile: (Grant) throws(IdentityError) -> CompiledGrant
    ) throws(IdentityError) -> Identity {
        let parts = try Parts(token)
        guard let key = keys[parts.keyID] else { throw .refused(.tokenKeyUnknown) }
        guard let signatureBytes = Base64URL.decode(parts.signature),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signatureBytes),
            key.key.isValidSignature(signature, for: Data(parts.signed.utf8))
        else { throw .refused(.tokenSignature) }
        // The signature is valid: only from here on may the payload be read.
        guard let claims = try? JSONDecoder().decode(Claims.self, from: Data(parts.payload)) else {
            throw .refused(.tokenMalformed)
        }
        guard claims.iss == (attachment == nil ? issuer : urlIssuer) else { throw .refused(.tokenIssuer) }
        try check(claims, keyID: parts.keyID, databaseID: databaseID, nowSeconds: nowSeconds)
        guard claims.att == attachment else { throw .refused(.urlOfAnother) }
        return Identity(
            userID: claims.sub, databaseID: DatabaseID(claims.db), peerKey: claims.pk,
            rights: try compile(claims.grant), expiresAtSeconds: claims.exp, issuedAtSeconds: claims.iat,
            tokenID: claims.jti,
            signedBy: parts.keyID, metadata: claims.meta)
    }

    /// The id of a token's key, read from the header alone. Checks nothing but the shape of the token.
    /// - Throws: `AUTH-0101`, `AUTH-0102`, and `AUTH-0103` for an id that cannot be one of ours.
    public static func keyID(of token: String) throws(IdentityError) -> KeyID { try Parts(token).keyID }

    /// The parts of a token whose shape is right and whose header is one of ours. Nothing else is verified.
    private struct Parts {
        let keyID: KeyID
        let payload: [UInt8]
        /// The signed text: header and payload as sent.
        let signed: Substring
        let signature: Substring

        init(_ token: String) throws(IdentityError) {
            guard token.utf8.count <= Limits.tokenBytes else { throw .refused(.tokenTooLarge) }
            let parts = token.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 3, let bytes = Base64URL.decode(parts[0]),
                let payload = Base64URL.decode(parts[1]),
                let header = try? JSONDecoder().decode(Header.self, from: Data(bytes))
            else { throw .refused(.tokenMalformed) }
            guard header.alg == "ES256", header.crit == nil else { throw .refused(.tokenAlgorithm) }
            guard let keyID = header.kid.flatMap({ KeyID($0) }) else { throw .refused(.tokenKeyUnknown) }
            self.keyID = keyID
            self.payload = payload
            signed = token[..<parts[1].endIndex]
            signature = parts[2]
        }
    }

    /// The documents that a token lets its holder write, for the holder's own use: nothing is verified. Nil
    /// when it may write everything, or when the token cannot be read.
    public static func claimedWriteRules(of token: String) -> (@Sendable (DocumentKey) -> Bool)? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard token.utf8.count <= Limits.tokenBytes, parts.count == 3,
            let payload = Base64URL.decode(parts[1]),
            let claims = try? JSONDecoder().decode(Claims.self, from: Data(payload)),
            !claims.grant.write.everything, let rules = try? CompiledGrant(claims.grant)
        else { return nil }
        return { rules.write.allows($0) }
    }

    private static func check(
        _ claims: Claims, keyID: KeyID, databaseID: DatabaseID?, nowSeconds: Int64
    ) throws(IdentityError) {
        guard keyID.databaseID == DatabaseID(claims.db), databaseID ?? keyID.databaseID == keyID.databaseID
        else { throw .refused(.tokenDatabase) }
        let skew = Limits.clockSkew.components.seconds
        // No skew for the end: the holder renews long before, and revocation relies on the end.
        guard nowSeconds < claims.exp else { throw .refused(.tokenExpired) }
        guard claims.iat <= nowSeconds + skew, (claims.nbf ?? claims.iat) <= nowSeconds + skew else {
            throw .refused(.tokenNotYetValid)
        }
        guard !claims.sub.isEmpty else { throw .refused(.tokenMalformed) }
    }

    /// Separate from `issue` so that tests can forge tokens that no honest issuer makes.
    static func sign(_ claims: Claims, keyID: String?, algorithm: String, with key: DatabaseSigningKey)
        -> String
    {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let header = Header(alg: algorithm, kid: keyID, typ: "JWT", crit: nil)
        guard let headerJSON = try? encoder.encode(header), let claimsJSON = try? encoder.encode(claims)
        else { preconditionFailure("strings and integers always encode") }
        return sealed(header: Array(headerJSON), payload: Array(claimsJSON), with: key)
    }

    /// Any header and payload with the key's valid signature, for fuzzers.
    package static func sealed(header: [UInt8], payload: [UInt8], with key: DatabaseSigningKey) -> String {
        let signed = "\(Base64URL.encode(header)).\(Base64URL.encode(payload))"
        guard let signature = try? key.privateKey.signature(for: Data(signed.utf8)) else {
            preconditionFailure("a P-256 key always signs")
        }
        return "\(signed).\(Base64URL.encode(signature.rawRepresentation))"
    }

    private struct Header: Codable {
        var alg: String
        var kid: String?
        var typ: String?
        var crit: [String]?
    }
}

/// The claims as encoded in the token.
struct Claims: Codable, Sendable {
    var iss: String
    var sub: String
    var db: String
    var pk: String?
    var grant: Grant
    var jti: String?
    var meta: String?
    var iat: Int64
    var nbf: Int64?
    var exp: Int64
    /// The attachment of a signed URL.
    var att: String?
}
