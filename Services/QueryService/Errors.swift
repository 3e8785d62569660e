import CRDT
import DQL
import Hummingbird
import OperationLog
import Postgres
import Replica
import ServiceKit

/// Every code this service raises. Statement errors keep their `DQL-…` code, tokens their `AUTH-…`.
public enum QueryErrorCode: String, Sendable, CaseIterable {
    /// 400: the body, an argument or a header is malformed.
    case malformedRequest = "QUERY-0101"
    /// 400: EVICT is local to a small peer.
    case evictIsLocal = "QUERY-0102"
    /// 400: the store refuses the statement's write (a document too large, an id of the wrong type).
    case refusedByStore = "QUERY-0103"
    /// 400: ALTER SYSTEM sets parameters of a small peer.
    case parametersAreLocal = "QUERY-0104"
    /// 404: the token is for a database that the log does not have.
    case unknownDatabase = "QUERY-0201"
    /// 403: no right to read a collection.
    case readNotGranted = "QUERY-0202"
    /// 403: no right to write a collection.
    case writeNotGranted = "QUERY-0203"
    /// 408: the state that X-DITTO-TXN-ID asks for was not reached in time.
    case transactionNotReached = "QUERY-0301"
    /// 409: other processes kept writing data that the statement reads or writes; try again.
    case conflict = "QUERY-0302"
    /// 503: too many statements wait.
    case overloaded = "QUERY-0303"
    /// 503: the log or the projection cannot be used at the moment.
    case unavailable = "QUERY-0304"
    /// 500: the projection is damaged, and was again after it was rebuilt; see the service's log.
    case damaged = "QUERY-0305"
}

/// The error of a request that the service does not execute.
public struct QueryError: Error, Equatable, Sendable {
    /// The stable code.
    public let code: QueryErrorCode
    /// For a person.
    public let message: String

    /// An error of this code; `detail` completes the code's own sentence.
    public init(_ code: QueryErrorCode, _ detail: String = "") {
        self.code = code
        message =
            switch code {
            case .malformedRequest: "the request is malformed: \(detail)"
            case .evictIsLocal:
                "EVICT drops a small peer's local copy, and the server has none; use DELETE"
            case .refusedByStore: detail
            case .parametersAreLocal:
                "ALTER SYSTEM sets parameters of a small peer; the server's are flags of its services"
            case .unknownDatabase: "the token's database does not exist on this server"
            case .readNotGranted: "the token grants no right to read \(detail)"
            case .writeNotGranted: "the token grants no right to write \(detail)"
            case .transactionNotReached: "the state of X-DITTO-TXN-ID was not reached in time; try again"
            case .conflict: "other processes wrote the same documents at the same time; try again"
            case .overloaded: "too many statements are waiting; try again later"
            case .damaged:
                "the server's copy of the documents is damaged and rebuilt; see the service's log: \(detail)"
            case .unavailable: "the store cannot be used at the moment; try again shortly: \(detail)"
            }
    }

    /// Translates errors of the modules below into errors for the client.
    static func translated(_ error: any Error) -> any Error {
        switch error {
        case let error as CRDTError: QueryError(.refusedByStore, "\(error)")
        case let error as DQLError where error.code == .unreadableDocument:
            QueryError(.damaged, error.code.rawValue)
        case let error as ReplicaError where error.code == .damaged || error.code == .brokenLog:
            QueryError(.damaged, error.code.rawValue)
        // The log's own answer says where.
        case let error as OperationLogError where error.code == .corrupt || error.code == .corruptSnapshot:
            error
        case let error as ReplicaError
        where [.documentTooLarge, .transactionTooLarge, .invalidCollection].contains(error.code):
            QueryError(.refusedByStore, "\(error)")
        case let error as ReplicaError: QueryError(.unavailable, error.code.rawValue)
        case let error as ProjectionError
        where [.documentTooLarge, .transactionTooLarge, .invalidCollection].contains(error.code):
            QueryError(.refusedByStore, "\(error)")
        case let error as ProjectionError where error.code == .overloaded: QueryError(.overloaded)
        case let error as ProjectionError: QueryError(.unavailable, error.code.rawValue)
        case let error as OperationLogError where error.code == .overloaded: QueryError(.overloaded)
        case let error as OperationLogError: QueryError(.unavailable, error.code.rawValue)
        default: error
        }
    }
}

extension QueryError: HTTPReportable {
    /// The status that goes with the code.
    public var httpStatus: HTTPResponse.Status {
        switch code {
        case .malformedRequest, .evictIsLocal, .refusedByStore, .parametersAreLocal: .badRequest
        case .unknownDatabase: .notFound
        case .readNotGranted, .writeNotGranted: .forbidden
        case .transactionNotReached: .requestTimeout
        case .conflict: .conflict
        case .overloaded, .unavailable: .serviceUnavailable
        case .damaged: .internalServerError
        }
    }

    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message.
    public var publicMessage: String { message }
    /// A 503 carries `Retry-After`.
    public var httpHeaders: HTTPFields { httpStatus == .serviceUnavailable ? [.retryAfter: "1"] : [:] }
}
