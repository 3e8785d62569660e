import Hummingbird

extension ServiceError: HTTPReportable {
    /// The status that goes with the code.
    public var httpStatus: HTTPResponse.Status {
        switch code {
        case .notFound: .notFound
        case .adminRefused: .unauthorized
        case .roleTooLow, .adminElsewhere: .forbidden
        case .methodNotAllowed: .methodNotAllowed
        case .requestTimeout: .requestTimeout
        case .notAcceptable: .notAcceptable
        case .bodyTooLarge: .contentTooLarge
        case .lineTooLong: .uriTooLong
        case .encodingUnknown: .unsupportedMediaType
        case .tooManyRunning, .tooMuchHeld, .limitReached: .tooManyRequests
        case .headTooLarge: .requestHeaderFieldsTooLarge
        case .badRequest, .tooManyValues: .badRequest
        case .upgradeRequired: .upgradeRequired
        case .issuerUnreachable, .contactLost, .restoreNotAccepted, .budgetSpent: .serviceUnavailable
        case .serviceUnreachable: .badGateway
        case .serviceSilent: .gatewayTimeout
        default: .internalServerError
        }
    }

    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message.
    public var publicMessage: String { message }
    /// A 429, and a 503 that passes by itself, carry `Retry-After`, a 401 the scheme, and a 415 the encoding
    /// that is understood (RFC 9110 sections 11.6.1 and 15.5.16).
    public var httpHeaders: HTTPFields {
        switch code {
        case .encodingUnknown: [.acceptEncoding: "gzip"]
        case .tooManyRunning, .tooMuchHeld: [.retryAfter: "1"]
        case .adminRefused: [.wwwAuthenticate: "Bearer"]
        case .restoreNotAccepted: [:]
        default: httpStatus == .serviceUnavailable ? [.retryAfter: "1"] : [:]
        }
    }
}
