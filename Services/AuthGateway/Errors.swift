import Hummingbird
import ServiceKit

/// Every code this service raises, beside those of Identity.
public enum AuthGatewayErrorCode: String, Sendable, CaseIterable {
    /// 400: the login request is not JSON of the documented shape.
    case requestMalformed = "AUTH-0401"
    /// 404: the database does not exist.
    case databaseUnknown = "AUTH-0402"
    /// 404: the database has no provider of that name.
    case providerUnknown = "AUTH-0403"
    /// 401: the provider refused.
    case loginRefused = "AUTH-0404"
    /// 503: the provider's webhook does not answer.
    case providerUnavailable = "AUTH-0405"
    /// 502: the provider's webhook answered what cannot be used.
    case providerAnswerInvalid = "AUTH-0406"
    /// The state folder cannot be read or written.
    case stateUnusable = "AUTH-0501"
    /// The state file is damaged, or of a newer version.
    case stateUnreadable = "AUTH-0502"
    /// The file of `--providers` cannot be read, or is not of the documented shape.
    case providersUnreadable = "AUTH-0503"
}

/// What this service throws. Holds no token and no key.
public struct AuthGatewayError: Error, Sendable, Equatable, HTTPReportable, CustomStringConvertible {
    /// The stable code.
    public let code: AuthGatewayErrorCode
    /// For a person.
    public let message: String

    init(_ code: AuthGatewayErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The status that goes with the code.
    public var httpStatus: HTTPResponse.Status {
        switch code {
        case .requestMalformed: .badRequest
        case .databaseUnknown, .providerUnknown: .notFound
        case .loginRefused: .unauthorized
        case .providerUnavailable: .serviceUnavailable
        case .providerAnswerInvalid: .badGateway
        case .stateUnusable, .stateUnreadable, .providersUnreadable: .internalServerError
        }
    }

    /// When to come back, where that may help.
    public var httpHeaders: HTTPFields { httpStatus == .serviceUnavailable ? [.retryAfter: "1"] : [:] }

    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message; where the state is broken, a general one.
    public var publicMessage: String {
        httpStatus == .internalServerError ? "the server failed; its log has the reason" : message
    }
    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }
}
