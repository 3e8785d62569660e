import CRDT
import DQL
import OperationLog

/// Every code that a projection in PostgreSQL raises; the raw value is stable and published.
public enum ProjectionErrorCode: String, Sendable, CaseIterable {
    /// The server cannot be reached, or the connection was lost. No transaction was applied in part; try
    /// again.
    case unreachable = "PROJ-0101"
    /// The server answers but refuses us, or cannot hold a projection: its version, its encoding, its
    /// rights.
    case cannotOpen = "PROJ-0102"
    /// The schema `mimeo_projection` belongs to another application. It was left unchanged.
    case notAProjection = "PROJ-0103"
    /// The schema was written by a newer version, or by one before 0.2.0 in a format that no release wrote
    /// (decision 0170). It was left unchanged.
    case unsupportedFormat = "PROJ-0104"

    /// The projection is being built and cannot answer yet; try again.
    case notReady = "PROJ-0201"
    /// Too many reads wait; try again.
    case overloaded = "PROJ-0202"
    /// The projection was closed.
    case closed = "PROJ-0203"
    /// The server refused a statement; the transaction was rolled back. The message has its reason.
    case storageFailed = "PROJ-0204"
    /// The role lacks a right on the server, maybe one that it had. Nothing was changed; the message names
    /// it. Grant it: what needs it is tried again, and everything else goes on.
    case rightMissing = "PROJ-0205"

    /// A stored document cannot be read: damage. The projection is rebuilt.
    case damaged = "PROJ-0301"
    /// The log has an entry that cannot be folded: damage there, named by its offset.
    case brokenLog = "PROJ-0302"

    /// A document of a draft exceeds the hard limit.
    case documentTooLarge = "PROJ-0401"
    /// A draft changes more than one operation, or the memory of one process, may hold.
    case transactionTooLarge = "PROJ-0402"
    /// No collection can have this name.
    case invalidCollection = "PROJ-0403"
}

/// An error of a projection. Has no secret and no document's content.
public struct ProjectionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The stable code.
    public let code: ProjectionErrorCode
    /// A text for a person.
    public let message: String

    /// An error of this code.
    public init(_ code: ProjectionErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// `PROJ-0101: message`.
    public var description: String { "\(code.rawValue): \(message)" }

    /// Runs a body that reads a stored document; an unreadable one is damage.
    static func reading<Result>(_ body: () throws(CRDTError) -> Result) throws(ProjectionError) -> Result {
        do throws(CRDTError) {
            return try body()
        } catch {
            throw ProjectionError(.damaged, "a stored document cannot be read: \(error)")
        }
    }

    /// Returns whether a statement's error means that a stored document cannot be read.
    static func isDamage(_ error: any Error) -> Bool {
        switch error {
        case let error as ProjectionError: error.code == .damaged
        case let error as DQLError: error.code == .unreadableDocument
        default: false
        }
    }

    /// Translates errors of the connection into errors of a projection; others stay as they are.
    static func translated(_ error: any Error) -> any Error {
        switch error {
        case let error as PostgresError where error.isConnectionLost:
            ProjectionError(.unreachable, "PostgreSQL cannot be reached: \(error.message)")
        case let error as PostgresError where error.lacksRight:
            ProjectionError(.rightMissing, "the role lacks a right in PostgreSQL: \(error)")
        case let error as PostgresError: ProjectionError(.storageFailed, error.description)
        case let error as OperationLogError where error.code == .unreachable:
            ProjectionError(.unreachable, error.message)
        case let error as OperationLogError where error.code == .overloaded:
            ProjectionError(.overloaded, "too many reads wait for PostgreSQL; try again")
        case let error as OperationLogError where error.code == .closed:
            ProjectionError(.closed, "the projection was closed")
        default: error
        }
    }

    /// The same while connecting: refusals of a server that answers, and URLs that libpq cannot parse, are
    /// permanent.
    static func opening(_ error: any Error, url: String) -> any Error {
        guard let error = error as? PostgresError else { return translated(error) }
        if error.isConnectionLost {
            return Connection.mayComeBack(url)
                ? translated(error)
                : ProjectionError(.cannotOpen, "PostgreSQL refuses the connection: \(error.message)")
        }
        return ProjectionError(.cannotOpen, "cannot prepare the schema mimeo_projection: \(error)")
    }
}
