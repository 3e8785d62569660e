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
    /// 400: what the statement would store is refused (a document too large, an id of the wrong type).
    case refusedByStore = "QUERY-0103"
    /// 400: ALTER SYSTEM sets parameters of a small peer.
    case parametersAreLocal = "QUERY-0104"
    /// 404: the token is for a database that the log does not have.
    case unknownDatabase = "QUERY-0201"
    /// 403: no right to read a collection.
    case readNotGranted = "QUERY-0202"
    /// 403: no right to write a collection.
    case writeNotGranted = "QUERY-0203"
    /// 408: the state asked for by X-DITTO-TXN-ID was not reached in time.
    case transactionNotReached = "QUERY-0301"
    /// 409: other processes kept writing what the statement reads or writes; try again.
    case conflict = "QUERY-0302"
    /// 503: too many statements wait.
    case overloaded = "QUERY-0303"
    /// 503: the log or the projection takes nothing at the moment.
    case unavailable = "QUERY-0304"
}

/// What this service answers a request with that it does not execute.
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
                "EVICT is local to a small peer; the server has no local copy to drop. Use DELETE"
            case .refusedByStore: detail
            case .parametersAreLocal:
                "ALTER SYSTEM sets parameters of a small peer; the server's are options of its services"
            case .unknownDatabase: "there is no such database here"
            case .readNotGranted: "no right to read \(detail)"
            case .writeNotGranted: "no right to write \(detail)"
            case .transactionNotReached: "the transaction was not reached in time"
            case .conflict: "other processes wrote the same documents at the same time; try again"
            case .overloaded: "too many statements are waiting; try again later"
            case .unavailable: "the store takes nothing at the moment: \(detail)"
            }
    }

    /// Errors of the modules below as what a client is told.
    static func translated(_ error: any Error) -> any Error {
        switch error {
        case let error as CRDTError: QueryError(.refusedByStore, "\(error)")
        case let error as DQLError where error.code == .unreadableDocument:
            QueryError(.unavailable, error.code.rawValue)
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
        }
    }

    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message.
    public var publicMessage: String { message }
    /// A 503 says when to try again.
    public var httpHeaders: HTTPFields { httpStatus == .serviceUnavailable ? [.retryAfter: "1"] : [:] }
}
