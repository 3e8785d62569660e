import Hummingbird
import ServiceKit

/// What the replicator answers before a session begins; after that it speaks in `SyncError`s.
///
/// - `REPL-0101`: the token is for a database that the log does not have.
public enum ReplicatorError: String, HTTPReportable {
    /// 404: no such database.
    case unknownDatabase = "REPL-0101"

    /// The status.
    public var httpStatus: HTTPResponse.Status { .notFound }
    /// The stable code.
    public var publicCode: String { rawValue }
    /// For a person.
    public var publicMessage: String { "there is no such database here" }
}
