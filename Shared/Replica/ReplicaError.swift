import DQL
import GRDB

/// Every code this module raises; the raw value is stable and published.
public enum ReplicaErrorCode: String, Sendable, CaseIterable {
    /// Another process (or another replica of this one) has the directory open.
    case directoryLocked = "STORE-0101"
    /// The directory cannot be created, read or written.
    case directoryUnusable = "STORE-0102"
    /// The store file was written by a newer version, or by one before 0.2.0 in a format that no release
    /// wrote (decision 0170); it was not changed.
    case unsupportedFormat = "STORE-0103"
    /// The file is not a store of ours, or is damaged: bytes are not those that were written, or commits are
    /// missing. Nothing was changed. A server builds its copy again; a peer's store is restored from a
    /// backup, or removed with its folder, which gives up its unacknowledged writes.
    case damaged = "STORE-0104"
    /// The replica was closed.
    case closed = "STORE-0105"
    /// The store belongs to another database than the one that it is opened for. Nothing was read, sent or
    /// changed. Use another directory for that database, or empty this one, which gives up the writes that
    /// its own server has not acknowledged.
    case otherDatabase = "STORE-0106"
    /// A local write makes a document exceed the hard size limit.
    case documentTooLarge = "STORE-0201"
    /// A transaction changes more than fits one operation.
    case transactionTooLarge = "STORE-0202"
    /// A collection name is empty or too long.
    case invalidCollection = "STORE-0203"
    /// The disk is full or failing; the transaction was rolled back.
    case storageFailed = "STORE-0204"
    /// An operation read from the log does not fit the ones before it.
    case brokenLog = "STORE-0301"
    /// A stamp from elsewhere is later than clocks may follow (`ReplicaLimits.stampMilliseconds`).
    case clockTooFarAhead = "STORE-0302"
}

/// An error of a store. The store stays usable after every code but `damaged` and `closed`.
public struct ReplicaError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The stable code.
    public let code: ReplicaErrorCode
    /// A text for a person.
    public let message: String

    /// An error of this code.
    public init(_ code: ReplicaErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// `STORE-0101: message`.
    public var description: String { "\(code.rawValue): \(message)" }
}

extension ReplicaError {
    /// Returns whether an error means that stored bytes are not those that were written.
    static func isDamage(_ error: any Error) -> Bool {
        switch error {
        case let error as ReplicaError: error.code == .damaged || error.code == .brokenLog
        case let error as DQLError: error.code == .unreadableDocument
        default: false
        }
    }

    /// Translates SQLite's errors; any other error passes through.
    static func translated(_ error: any Error) -> any Error {
        guard let failure = error as? DatabaseError else { return error }
        let detail = failure.message ?? "SQLite result code \(failure.resultCode.rawValue)"
        switch failure.resultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            return ReplicaError(.damaged, "the store file is damaged: \(detail)")
        case .SQLITE_MISUSE: return ReplicaError(.closed, "the store was closed meanwhile")
        case .SQLITE_FULL:
            return ReplicaError(
                .storageFailed,
                "the disk is full, the store's or that of temporary files (TMPDIR); "
                    + "the transaction was rolled back"
            )
        case _ where failure.extendedResultCode == .SQLITE_IOERR_GETTEMPPATH:
            return ReplicaError(
                .storageFailed, "no folder for temporary files can be written; name one with TMPDIR")
        default: return ReplicaError(.storageFailed, "the transaction was rolled back: \(detail)")
        }
    }

    /// The same while a store is being opened: a file that cannot be opened means an unusable directory.
    static func opening(_ error: any Error, path: String) -> any Error {
        guard let failure = error as? DatabaseError,
            [.SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_IOERR].contains(failure.resultCode)
        else { return translated(error) }
        return ReplicaError(.directoryUnusable, "cannot open \(path): \(failure.message ?? "no detail")")
    }
}
