/// Every code this module raises. A code never changes its meaning and is never reused.
///
/// The codes of refused tokens (0101 to 0113) differ so that an operator can tell them apart. The message
/// does not: it must not tell a forger which check failed.
public enum IdentityErrorCode: String, Sendable, CaseIterable {
    /// The text is not three base64url parts of JSON with the claims we require.
    case tokenMalformed = "AUTH-0101"
    /// The header names an algorithm other than ES256 (`none` included) or a critical extension.
    case tokenAlgorithm = "AUTH-0102"
    /// No key of the key set has the header's `kid`.
    case tokenKeyUnknown = "AUTH-0103"
    /// The signature was not made by the named key.
    case tokenSignature = "AUTH-0104"
    /// `exp` has passed.
    case tokenExpired = "AUTH-0105"
    /// `nbf` or `iat` lies in the future.
    case tokenNotYetValid = "AUTH-0106"
    /// The key belongs to another database than the `db` claim names, or the caller expected another one.
    case tokenDatabase = "AUTH-0107"
    /// `iss` is not our auth-gateway.
    case tokenIssuer = "AUTH-0108"
    /// A request that needs a token has none.
    case tokenMissing = "AUTH-0109"
    /// The text is longer than `Limits.tokenBytes`.
    case tokenTooLarge = "AUTH-0110"
    /// No API key has this id, or its secret is different.
    case apiKeyRefused = "AUTH-0111"
    /// The user, the peer or the token was revoked.
    case revoked = "AUTH-0112"
    /// A URL is signed for another attachment.
    case urlOfAnother = "AUTH-0113"
    /// The grant holds a permission query that this version cannot enforce. It is refused as a whole.
    case grantNotEnforceable = "AUTH-0201"
    /// The grant does not have the documented shape.
    case grantMalformed = "AUTH-0202"
    /// The identity may not do what it asked for.
    case notPermitted = "AUTH-0203"
    /// A permissions object has a member that this version does not know.
    case grantMemberUnknown = "AUTH-0204"
    /// A permissions object names two collections that only their bytes tell apart.
    case grantNamesAlike = "AUTH-0205"
    /// A database's signing key or its id cannot be read.
    case signingKeyInvalid = "AUTH-0301"
    /// A peer key cannot be read.
    case peerKeyInvalid = "AUTH-0302"
    /// A key set (JWKS) cannot be read.
    case keySetInvalid = "AUTH-0303"
    /// A certificate signing request cannot be read, or is not signed by the peer key of the token.
    case requestRefused = "AUTH-0305"
    /// A peer's certificate cannot be read, or was not issued by this database's authority.
    case certificateRefused = "AUTH-0306"
    /// A database id must be 1 to 128 characters of `[A-Za-z0-9_-]`.
    case databaseIDInvalid = "AUTH-0304"
}

/// An error of this module. It never holds a token, a key or a secret.
public struct IdentityError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code.
    public let code: IdentityErrorCode
    /// A message for a person; safe to send to the caller.
    public let message: String

    /// - Parameters:
    ///   - code: the stable code.
    ///   - message: for a person, without secrets.
    public init(_ code: IdentityErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }

    /// A refused token. The message does not say which check failed.
    static func refused(_ code: IdentityErrorCode) -> IdentityError {
        IdentityError(code, "the access token was not accepted; log in again")
    }

    /// The same error of a signed URL, for whoever has no token.
    public var ofURL: IdentityError {
        IdentityError(code, "the signed URL was not accepted, or has expired; ask for another one")
    }

    /// The token's database no longer exists.
    public static var databaseGone: IdentityError { refused(.tokenDatabase) }
    /// The key that signed the token was retired.
    public static var keyRetired: IdentityError { refused(.tokenKeyUnknown) }
    /// The token has expired.
    public static var expired: IdentityError { refused(.tokenExpired) }
    /// The token, its user or its peer was revoked.
    public static var revoked: IdentityError { refused(.revoked) }
    /// A certificate signing request that is malformed or does not prove the peer key.
    static var requestRefused: IdentityError {
        IdentityError(
            .requestRefused, "send a PKCS#10 request in PEM, signed by the peer key that the token names")
    }
    /// A refused certificate. The message does not say which check failed.
    static var certificateRefused: IdentityError {
        IdentityError(.certificateRefused, "the peer's certificate was not accepted")
    }
    /// No such API key, or a wrong secret. The message does not say which.
    public static var apiKeyRefused: IdentityError {
        IdentityError(.apiKeyRefused, "the API key was not accepted")
    }
    /// An expired API key.
    public static var apiKeyExpired: IdentityError {
        IdentityError(.tokenExpired, "the API key has expired")
    }

    /// A missing token.
    public static var missingToken: IdentityError {
        IdentityError(.tokenMissing, "this request needs an access token (Authorization: Bearer …)")
    }

    /// A request outside the identity's grant.
    /// - Parameter what: completes "this identity may not …".
    public static func notPermitted(_ what: String) -> IdentityError {
        IdentityError(.notPermitted, "this identity may not \(what)")
    }
}
