import Hummingbird
import ServiceKit

/// The replicator's errors over HTTP; sessions use `SyncError`.
///
/// - `REPL-0101`: the log does not have the database named by the token or admin request.
/// - `REPL-0102`: this instance is draining; another one takes the session.
/// - `REPL-0201` to `REPL-0208`: admin requests (`REPL-0206`: `MalformedErasure`).
public enum ReplicatorError: String, HTTPReportable {
    /// 404: no such database.
    case unknownDatabase = "REPL-0101"
    /// 503: this instance accepts no sessions any more.
    case draining = "REPL-0102"
    /// 404: no session with this number runs here.
    case unknownSession = "REPL-0201"
    /// 400: a number in the request is malformed.
    case malformedRequest = "REPL-0202"
    /// 410: the operations asked for were removed.
    case truncatedAway = "REPL-0203"
    /// 409: the database has no snapshot up to which operations could be removed.
    case noSnapshot = "REPL-0204"
    /// 409: another process is doing the housekeeping of the database.
    case busy = "REPL-0205"

    /// 413: an erasure names more than `Limits.erasedDocuments` documents.
    case erasureTooLarge = "REPL-0207"
    /// 409: this instance follows no system database, which erasures are kept in.
    case noSystemDatabase = "REPL-0208"

    /// The status.
    public var httpStatus: HTTPResponse.Status {
        switch self {
        case .unknownDatabase, .unknownSession: .notFound
        case .draining: .serviceUnavailable
        case .malformedRequest: .badRequest
        case .truncatedAway: .gone
        case .noSnapshot, .busy, .noSystemDatabase: .conflict
        case .erasureTooLarge: .contentTooLarge
        }
    }

    /// The stable code.
    public var publicCode: String { rawValue }

    /// A text for a person.
    public var publicMessage: String {
        switch self {
        case .unknownDatabase: "there is no such database here"
        case .draining: "this instance takes no sessions any more; connect again"
        case .unknownSession: "no session of this number runs here"
        case .malformedRequest: "after, limit and keep are whole numbers, limit from 1"
        case .truncatedAway: "the operations asked for were removed; a snapshot stands for them"
        case .noSnapshot: "the database has no snapshot yet"
        case .erasureTooLarge:
            "an erasure names at most \(Limits.erasedDocuments) documents; send several"
        case .noSystemDatabase: "this instance has no system database, which erasures are kept in"
        case .busy: "another process does the housekeeping of this database"
        }
    }

    /// A 503 says when to try again.
    public var httpHeaders: HTTPFields { self == .draining ? [.retryAfter: "1"] : [:] }
}
