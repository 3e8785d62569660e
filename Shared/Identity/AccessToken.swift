import CRDT
import Crypto
import Foundation

/// Access tokens: JWTs (RFC 7519) signed with ES256 by the database's key, and nothing else.
///
/// Header `{"alg":"ES256","kid":"<database>.<n>","typ":"JWT"}`, claims `iss`, `sub` (user), `db`, `pk`?
/// (peer key), `grant`, `jti` (token id), `meta`? (what peers are shown), `iat`, `nbf`?, `exp`. Times are
/// whole seconds since 1970.
public enum AccessToken {
    /// The `iss` of every token: names the role, not an address, so a server may move.
    public static let issuer = "urn:mimeo:auth-gateway"

    /// The longest token that anybody takes.
    public static let maximumBytes = Limits.tokenBytes

    /// An id for a token that is to be issued: 128 random bits.
    public static func newID() -> String {
        var generator = SystemRandomNumberGenerator()
        return Base64URL.encode((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Makes a token that is valid from `nowSeconds` on.
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

    /// Checks everything that can be checked without asking anybody.
    /// - Parameters:
    ///   - token: untrusted text.
    ///   - keys: the keys that are believed.
    ///   - databaseID: the database the caller is working on, when it knows one.
    ///   - nowSeconds: seconds since 1970.
    /// - Throws: `AUTH-0101` to `AUTH-0108`, `AUTH-0110`, `AUTH-0201`, `AUTH-0202`.
    public static func verify(
        _ token: String, keys: KeySet, databaseID: DatabaseID? = nil, nowSeconds: Int64
    ) throws(IdentityError) -> Identity {
        let compile = { (grant) throws(IdentityError) in try CompiledGrant(grant) }
        return try verify(
            token, keys: keys, databaseID: databaseID, nowSeconds: nowSeconds, compiling: compile)
    }

    /// The same, with somebody who may have compiled the grant before.
    static func verify(
        _ token: String, keys: KeySet, databaseID: DatabaseID?, nowSeconds: Int64,
        compiling compile: (Grant) throws(IdentityError) -> CompiledGrant
    ) throws(IdentityError) -> Identity {
        let parts = try Parts(token)
        guard let key = keys[parts.keyID] else { throw .refused(.tokenKeyUnknown) }
        guard let signatureBytes = Base64URL.decode(parts.signature),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signatureBytes),
            key.key.isValidSignature(signature, for: Data(parts.signed.utf8))
        else { throw .refused(.tokenSignature) }
        // Only from here on is the payload the auth-gateway's; nothing of it is looked at before.
        guard let claims = try? JSONDecoder().decode(Claims.self, from: Data(parts.payload)) else {
            throw .refused(.tokenMalformed)
        }
        try check(claims, keyID: parts.keyID, databaseID: databaseID, nowSeconds: nowSeconds)
        return Identity(
            userID: claims.sub, databaseID: DatabaseID(claims.db), peerKey: claims.pk,
            rights: try compile(claims.grant), expiresAtSeconds: claims.exp, issuedAtSeconds: claims.iat,
            tokenID: claims.jti,
            signedBy: parts.keyID, metadata: claims.meta)
    }

    /// The key a token names, from its header alone; nothing about it has been checked but the shape.
    /// - Throws: `AUTH-0101`, `AUTH-0102`, and `AUTH-0103` for an id that cannot be one of ours.
    public static func keyID(of token: String) throws(IdentityError) -> KeyID { try Parts(token).keyID }

    /// A token taken apart: its shape is right and its header is one of ours, nothing else is known of it.
    private struct Parts {
        let keyID: KeyID
        let payload: [UInt8]
        /// What the signature is of: header and payload as they stand.
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

    /// Which documents a token says that its holder may write, for the holder itself: nothing is verified.
    /// Nil where it may write everything, or the token cannot be read.
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
        guard claims.iss == issuer else { throw .refused(.tokenIssuer) }
        guard keyID.databaseID == DatabaseID(claims.db), databaseID ?? keyID.databaseID == keyID.databaseID
        else { throw .refused(.tokenDatabase) }
        let skew = Limits.clockSkew.components.seconds
        // No skew for the end: the holder renews long before it, and revocation waits for it.
        guard nowSeconds < claims.exp else { throw .refused(.tokenExpired) }
        guard claims.iat <= nowSeconds + skew, (claims.nbf ?? claims.iat) <= nowSeconds + skew else {
            throw .refused(.tokenNotYetValid)
        }
        guard !claims.sub.isEmpty else { throw .refused(.tokenMalformed) }
    }

    /// Separate from `issue` so that tests can forge what no honest issuer makes.
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

    /// Header and payload, whatever they are, and the key's signature: fuzzers sign what they make up.
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

/// The claims as they stand in the token.
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
}
