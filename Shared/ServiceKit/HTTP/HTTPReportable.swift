import CRDT
import Hummingbird
import Identity
import NIOCore
import OperationLog

/// An error that may be sent to the client as `{"error":{"code","message"}}`. Every other error becomes a
/// 500, and its reason goes only into the log.
public protocol HTTPReportable: Error {
    /// The status of the answer, 400 or above.
    var httpStatus: HTTPResponse.Status { get }
    /// A stable code.
    var publicCode: String { get }
    /// For a person; without secrets.
    var publicMessage: String { get }
    /// Further header fields of the answer.
    var httpHeaders: HTTPFields { get }
    /// Further members of `error`, for programs.
    var publicMembers: ObjectValue { get }
}

extension HTTPReportable {
    /// None.
    public var httpHeaders: HTTPFields { [:] }
    /// None.
    public var publicMembers: ObjectValue { ObjectValue() }
}

extension IdentityError: HTTPReportable {
    /// 401 if a login may help, 403 if not, 400 for malformed values.
    public var httpStatus: HTTPResponse.Status {
        switch code {
        case .notPermitted, .grantNotEnforceable: .forbidden
        case .grantMalformed, .grantMemberUnknown, .peerKeyInvalid, .databaseIDInvalid, .requestRefused:
            .badRequest
        case .signingKeyInvalid, .keySetInvalid: .internalServerError
        default: .unauthorized
        }
    }

    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message.
    public var publicMessage: String { message }
    /// A 401 names the scheme (RFC 9110 section 11.6.1).
    public var httpHeaders: HTTPFields { httpStatus == .unauthorized ? [.wwwAuthenticate: "Bearer"] : [:] }
}

/// The log cannot be read or written at the moment. The log's own message may name hosts and paths, so it
/// is not sent; that of a move is for clients.
private struct LogUnavailable: HTTPReportable {
    let error: OperationLogError
    private var code: OperationLogErrorCode { error.code }

    var httpStatus: HTTPResponse.Status { .serviceUnavailable }
    var publicCode: String { code.rawValue }
    var publicMessage: String {
        code == .moved
            ? error.message : "the operation log is not available at the moment; try again shortly"
    }
    var httpHeaders: HTTPFields { [.retryAfter: "1"] }
}

/// The log is damaged where the request needs it. Trying again changes nothing, so there is no `Retry-After`.
private struct LogDamaged: HTTPReportable {
    let error: OperationLogError

    var httpStatus: HTTPResponse.Status { .internalServerError }
    var publicCode: String { error.code.rawValue }
    var publicMessage: String {
        let place = error.offset.map { " at offset \($0)" } ?? ""
        return "the operation log is damaged\(place); an operator has to restore it from a backup"
    }
}

extension OperationLogErrorCode {
    /// True if the same request may succeed later.
    fileprivate var isPassing: Bool {
        switch self {
        case .storageFull, .busy, .commitFailed, .poisoned, .overloaded, .closed, .storageFailed,
            .outcomeUnknown, .unreachable, .nearlyFull, .stalled, .moved:
            true
        default: false
        }
    }
}

/// The answer for an error.
public enum ErrorAnswer {
    /// `{"error":{"code","message"}}` as JSON text, with the further members after them.
    public static func json(
        code: String, message: String, members: ObjectValue = ObjectValue()
    ) -> [UInt8] {
        var error = ObjectValue([
            (key: "code", value: .string(code)), (key: "message", value: .string(message)),
        ])
        for member in members.entries { error[member.key] = member.value }
        return JSONText.bytes(.object(ObjectValue([(key: "error", value: .object(error))])))
    }

    /// The error to send to the client: `error` itself if it is reportable, else a general one.
    public static func reportable(_ error: any Error) -> any HTTPReportable {
        switch error {
        case let error as any HTTPReportable: error
        case let error as OperationLogError where error.code.isPassing: LogUnavailable(error: error)
        case let error as OperationLogError where error.code == .corrupt || error.code == .corruptSnapshot:
            LogDamaged(error: error)
        case is NIOTooManyBytesError: ServiceError(.bodyTooLarge, "the body of the request is too large")
        case let error as HTTPError:
            switch error.status {
            case .notFound: ServiceError(.notFound, "nothing is served at this path")
            case .contentTooLarge: ServiceError(.bodyTooLarge, "the body of the request is too large")
            case .internalServerError:
                ServiceError(.internalFailure, "the server failed; see its log for the reason")
            default: ServiceError(.badRequest, error.body ?? "the request is malformed")
            }
        default: ServiceError(.internalFailure, "the server failed; see its log for the reason")
        }
    }

    /// The whole answer.
    public static func response(for error: any Error) -> Response {
        let error = reportable(error)
        var headers = error.httpHeaders
        headers[.contentType] = "application/json"
        let body = json(
            code: error.publicCode, message: error.publicMessage, members: error.publicMembers)
        return Response(
            status: error.httpStatus, headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    }
}
