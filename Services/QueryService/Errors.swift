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
    /// 422: the Idempotency-Key was used for another request.
    case idempotencyKeyReused = "QUERY-0105"
    /// 404: the token is for a database that the log does not have.
    case unknownDatabase = "QUERY-0201"
    /// 403: no right to read a collection.
    case readNotGranted = "QUERY-0202"
    /// 403: no right to write a collection.
    case writeNotGranted = "QUERY-0203"
    /// 410: an operator has erased the document; its id takes no writes any more.
    case erased = "QUERY-0204"
    /// 408: the state that X-DITTO-TXN-ID asks for was not reached in time.
    case transactionNotReached = "QUERY-0301"
    /// 409: other processes kept writing data that the statement reads or writes; try again.
    case conflict = "QUERY-0302"
    /// 503: too many statements wait.
    case overloaded = "QUERY-0303"
    /// 429: the user has used too many idempotency keys within a day.
    case tooManyIdempotencyKeys = "QUERY-0305"
    /// 503: the log or the projection cannot be used at the moment.
    case unavailable = "QUERY-0304"
    /// 500: the projection is damaged, and was again after it was rebuilt; see the service's log.
    case damaged = "QUERY-0306"
    /// 409: earlier requests with `undo/…` keys have undone all of it; nothing was written.
    case alreadyUndone = "QUERY-0307"
    /// 400: an offset lies beyond the log's head: a cursor of another database, or of a log that was put back
    /// to an earlier state.
    case futureOffset = "QUERY-0501"
    /// 400: the past can be read and not written.
    case pastIsReadOnly = "QUERY-0502"
    /// 410: the log does not reach back so far; `oldest` and `oldestTime` say how far it does.
    case historyGone = "QUERY-0503"
    /// 429: too many streams are open, of this credential or in this process.
    case tooManyStreams = "QUERY-0504"
    /// 400: the rows of a live query take more memory than the server keeps for one.
    case resultTooLarge = "QUERY-0505"
    /// 404: the database has no webhook of this id.
    case unknownWebhook = "QUERY-0601"
    /// 409: the database has as many webhooks as it may have.
    case tooManyWebhooks = "QUERY-0602"
    /// 409: the key that seals secrets is not where this service looks for it.
    case noSecretsKey = "QUERY-0603"
    /// 400: the statement ran longer than the server's limit.
    case tookTooLong = "QUERY-0401"
    /// 409: the statement was cancelled.
    case cancelled = "QUERY-0402"
    /// 404: no statement of this number runs, or it is another credential's.
    case unknownStatement = "QUERY-0404"
    /// 400: the rows of the answer are more than one answer may hold.
    case answerTooLarge = "QUERY-0405"
}

/// The error of a request that the service does not execute.
public struct QueryError: Error, Equatable, Sendable {
    /// The stable code.
    public let code: QueryErrorCode
    /// For a person.
    public let message: String
    /// Further members of the answer, for programs.
    public let publicMembers: ObjectValue

    /// An error of this code; `detail` completes the code's own sentence.
    public init(_ code: QueryErrorCode, _ detail: String = "", members: ObjectValue = ObjectValue()) {
        self.code = code
        publicMembers = members
        message =
            switch code {
            case .malformedRequest: "the request is malformed: \(detail)"
            case .evictIsLocal:
                "EVICT drops a small peer's local copy, and the server has none; use DELETE"
            case .refusedByStore: detail
            case .parametersAreLocal:
                "ALTER SYSTEM sets parameters of a small peer; the server's are flags of its services"
            case .idempotencyKeyReused:
                "the Idempotency-Key was used for another request within a day; use a new key for each write"
            case .alreadyUndone:
                "it was undone before, by a request whose Idempotency-Key names the same operation; nothing "
                    + "was written"
            case .tooManyIdempotencyKeys:
                "the user has used \(Limits.keptAnswersPerUser) idempotency keys within a day"
            case .unknownDatabase: "the token's database does not exist on this server"
            case .readNotGranted: "the token grants no right to read \(detail)"
            case .writeNotGranted: "the token grants no right to write \(detail)"
            case .erased: "\(detail) was erased by an operator; its id takes no writes any more"
            case .transactionNotReached: "the state of X-DITTO-TXN-ID was not reached in time; try again"
            case .conflict:
                "others wrote the same documents meanwhile, each time before this could; nothing was "
                    + "written: try again"
            case .overloaded: "too many statements are waiting; try again later"
            case .damaged:
                "the server's copy of the documents is damaged and rebuilt; see the service's log: \(detail)"
            case .unavailable: "the store cannot be used at the moment; try again shortly: \(detail)"
            case .futureOffset:
                "the offset lies beyond the log's head, which is \(detail): it is of another database, or "
                    + "the log was restored from a backup"
            case .pastIsReadOnly: "asOf reads the past: only a SELECT can have it"
            case .historyGone:
                "the log does not reach back so far; the oldest state there is has offset \(detail)"
            case .tooManyStreams: "too many streams are open; close one, or try again later"
            case .resultTooLarge:
                "the query's rows take more than \(detail) bytes; narrow its condition, or set a "
                    + "LIMIT"
            case .unknownWebhook: "the database has no webhook of this id"
            case .tooManyWebhooks:
                "a database has at most \(Limits.webhooksOfDatabase) webhooks; delete one first"
            case .noSecretsKey:
                "the secret cannot be sealed: \(detail) is not there, or is another key; set --secrets-key "
                    + "to the auth-gateway's file"
            case .tookTooLong:
                "the statement ran longer than \(detail), the limit of this server: narrow its condition, "
                    + "give it an index or a LIMIT"
            case .cancelled: "the statement was cancelled"
            case .unknownStatement: "no such statement of yours is running"
            case .answerTooLarge:
                "the answer's rows take more than \(detail) bytes: ask for less at a time, with "
                    + "LIMIT or fewer fields"
            }
    }

    /// The error of a statement that was ended before it was done.
    static func ended(_ reason: Evaluation.End?, after limit: Duration) -> any Error {
        switch reason {
        case .refused(let error)?: error
        case .cancelled?, .abandoned?: QueryError(.cancelled)
        case .timeout?, nil: QueryError(.tookTooLong, "\(limit.components.seconds) s")
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
        case let error as OperationLogError
        where [.corrupt, .corruptSnapshot, .moved].contains(error.code):
            error
        case let error as ReplicaError
        where [.documentTooLarge, .transactionTooLarge, .invalidCollection].contains(error.code):
            QueryError(.refusedByStore, "\(error)")
        case let error as ReplicaError: QueryError(.unavailable, error.code.rawValue)
        case let error as ProjectionError
        where [.documentTooLarge, .transactionTooLarge, .invalidCollection].contains(error.code):
            QueryError(.refusedByStore, "\(error)")
        case let error as ProjectionError where error.code == .overloaded: QueryError(.overloaded)
        case let error as ProjectionError where error.code == .rightMissing:
            QueryError(
                .unavailable,
                "\(error.code.rawValue): its role lacks a right in PostgreSQL; the service's log says which")
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
        case .malformedRequest, .evictIsLocal, .refusedByStore, .parametersAreLocal, .futureOffset,
            .pastIsReadOnly, .resultTooLarge, .tookTooLong, .answerTooLarge:
            .badRequest
        case .unknownDatabase, .unknownStatement, .unknownWebhook: .notFound
        case .readNotGranted, .writeNotGranted: .forbidden
        case .erased: .gone
        case .transactionNotReached: .requestTimeout
        case .conflict, .alreadyUndone, .cancelled, .tooManyWebhooks, .noSecretsKey: .conflict
        case .idempotencyKeyReused: .unprocessableContent
        case .tooManyIdempotencyKeys: .tooManyRequests
        case .overloaded, .unavailable: .serviceUnavailable
        case .historyGone: .gone
        case .tooManyStreams: .tooManyRequests
        case .damaged: .internalServerError
        }
    }

    /// The stable code as text.
    public var publicCode: String { code.rawValue }
    /// The message.
    public var publicMessage: String { message }
    /// A 503 and a 429 carry `Retry-After`.
    public var httpHeaders: HTTPFields {
        [.serviceUnavailable, .tooManyRequests].contains(httpStatus) ? [.retryAfter: "1"] : [:]
    }
}
