import Hummingbird
import ServiceKit

/// Every code this service raises, except those of Identity.
public enum AuthGatewayErrorCode: String, Sendable, CaseIterable {
    /// 400: the login request is not JSON of the documented shape.
    case requestMalformed = "AUTH-0401"
    /// 404: the database does not exist.
    case databaseUnknown = "AUTH-0402"
    /// 404: the database has no login provider of that name.
    case providerUnknown = "AUTH-0403"
    /// 401: the provider refused.
    case loginRefused = "AUTH-0404"
    /// 503: the provider's webhook does not answer.
    case providerUnavailable = "AUTH-0405"
    /// 502: the answer of the provider's webhook is invalid.
    case providerAnswerInvalid = "AUTH-0406"
    /// 401: the admin credential is missing or wrong.
    case adminRefused = "AUTH-0407"
    /// 401: the user or the peer was revoked.
    case loginRevoked = "AUTH-0408"
    /// 409: the record exists already, or somebody has changed it meanwhile.
    case exists = "AUTH-0409"
    /// 429: too many logins failed; `Retry-After` tells how long to wait.
    case tooManyAttempts = "AUTH-0410"
    /// 404: the provider, key or revocation to change does not exist.
    case recordUnknown = "AUTH-0411"
    /// 409: not possible now, or not through this API; the message has the reason.
    case notPossible = "AUTH-0412"
    /// 503: more logins wait for the provider's webhook, or for the hash of a password, than are answered in
    /// time.
    case providerBusy = "AUTH-0413"
    /// 429: too many logins of this name have failed from this network; wait for the time in `Retry-After`.
    case accountLocked = "AUTH-0414"
    /// 401: the account's time is over; an administrator may give it a later end.
    case accountExpired = "AUTH-0415"
    /// 401: the login needs the code of the second factor too.
    case secondFactorNeeded = "AUTH-0416"
    /// 400: the new password is too short or too long, or the name is none.
    case credentialsUnsuitable = "AUTH-0417"
    /// 409: an account has this name, or one that looks like it.
    case nameTaken = "AUTH-0418"
    /// 410: the link was used, has ended or was never made; ask for another.
    case linkRefused = "AUTH-0419"
    /// 400: nobody has answered yet; the device asks again after its interval.
    case joinPending = "AUTH-0420"
    /// 400: as `AUTH-0420`, and the device asks too often: its interval is five seconds longer now.
    case joinTooFast = "AUTH-0421"
    /// 403: a person has denied the device.
    case joinDenied = "AUTH-0422"
    /// 410: the code was used, has ended or was never made; the device asks for another.
    case joinEnded = "AUTH-0423"
    /// 403: the development login is off, because the server listens beyond loopback or behind a proxy.
    case developmentOff = "AUTH-0424"
    /// The state folder cannot be read or written.
    case stateUnusable = "AUTH-0501"
    /// The state file is damaged, or of a newer version.
    case stateUnreadable = "AUTH-0502"
    /// The file of `--providers` cannot be read, or is not of the documented shape.
    case providersUnreadable = "AUTH-0503"
    /// A file with a secret may be read by others, or is too short.
    case secretUnsafe = "AUTH-0504"
    /// A secret in the system database was sealed under another key.
    case secretSealed = "AUTH-0505"
}

/// The error of this service. It holds no token and no key.
public struct AuthGatewayError: Error, Sendable, Equatable, HTTPReportable, CustomStringConvertible {
    /// The stable code.
    public let code: AuthGatewayErrorCode
    /// For a person.
    public let message: String

    /// Seconds until a retry may succeed, if known.
    let retryAfterSeconds: Int64?

    init(_ code: AuthGatewayErrorCode, _ message: String, retryAfterSeconds: Int64? = nil) {
        self.code = code
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// The status that goes with the code.
    public var httpStatus: HTTPResponse.Status {
        switch code {
        case .requestMalformed, .credentialsUnsuitable, .joinPending, .joinTooFast: .badRequest
        case .databaseUnknown, .providerUnknown, .recordUnknown: .notFound
        case .loginRefused, .loginRevoked, .adminRefused, .accountExpired, .secondFactorNeeded: .unauthorized
        case .joinDenied, .developmentOff: .forbidden
        case .linkRefused, .joinEnded: .gone
        case .exists, .notPossible, .nameTaken: .conflict
        case .tooManyAttempts, .accountLocked: .tooManyRequests
        case .providerUnavailable, .providerBusy: .serviceUnavailable
        case .providerAnswerInvalid: .badGateway
        case .stateUnusable, .stateUnreadable, .providersUnreadable, .secretUnsafe, .secretSealed:
            .internalServerError
        }
    }

    /// `Retry-After`, if a retry may succeed; the scheme, if a credential is missing.
    public var httpHeaders: HTTPFields {
        if httpStatus == .unauthorized { return [.wwwAuthenticate: "Bearer"] }
        if let retryAfterSeconds { return [.retryAfter: "\(retryAfterSeconds)"] }
        return httpStatus == .serviceUnavailable ? [.retryAfter: "1"] : [:]
    }

    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message, or a general one if the server's own state is broken.
    public var publicMessage: String {
        httpStatus == .internalServerError ? "the server failed; see its log for the reason" : message
    }
    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }
}
