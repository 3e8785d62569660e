import CRDT

/// Every code this module raises; the raw value is stable and published.
public enum OperationLogErrorCode: String, Sendable, CaseIterable {
    /// The log has no such database.
    case unknownDatabase = "LOG-0101"
    /// No database can have this id (see the contract for those that can).
    case invalidDatabaseID = "LOG-0102"
    /// An append request breaks a limit: sequence 0 or beyond 2^63 - 1, no bytes, too many bytes, too long
    /// a key.
    case invalidRequest = "LOG-0103"
    /// The offset lies beyond the head: it was given out by another log, or before a restore.
    case offsetBeyondHead = "LOG-0104"
    /// The entries after this offset were removed; `offset` is that of the snapshot to begin with instead.
    case truncated = "LOG-0105"
    /// The snapshot or draft does not exist: another one has replaced it, or there never was one.
    case noSnapshot = "LOG-0106"

    /// The log's file cannot be opened or created; the message has the system's reason.
    case cannotOpen = "LOG-0201"
    /// The file is not an operation log. It was left unchanged.
    case notAnOperationLog = "LOG-0202"
    /// The log was written by a newer version, or by one before 0.2.0 in a format that no release wrote
    /// (decision 0170). It was left unchanged.
    case unsupportedFormat = "LOG-0203"

    /// The storage is full. Nothing was stored; appends succeed again once there is space. Reads continue.
    case storageFull = "LOG-0301"
    /// Another process kept the write lock for longer than the timeout. Nothing was stored.
    case busy = "LOG-0302"
    /// A write or commit failed in a way that leaves its durability unknown: its operations are stored, or
    /// not. The writer is poisoned until the log is recovered, and the frontier then tells.
    case commitFailed = "LOG-0303"
    /// An earlier commit failed; appends are refused until the log has recovered, which it tries by itself.
    /// Nothing was stored. Reads continue.
    case poisoned = "LOG-0304"
    /// Too many appends are waiting. Nothing was stored; try later.
    case overloaded = "LOG-0305"
    /// The log was closed. Nothing was stored.
    case closed = "LOG-0306"
    /// The storage refused a statement for another reason. Nothing was stored.
    case storageFailed = "LOG-0307"
    /// The connection was lost during a change, which may or may not be stored; an entry that the log shows
    /// once the server answers again is durable. The writer stays usable, and the frontier tells the next
    /// appender.
    case outcomeUnknown = "LOG-0308"
    /// The server cannot be reached. Nothing was stored; try later.
    case unreachable = "LOG-0309"
    /// The disk is nearly full, and what is left is for those who make room. Nothing was stored; appends
    /// succeed again once there is room. Reads continue.
    case nearlyFull = "LOG-0310"
    /// An append has waited for its commit for long: the storage is slow, or stands still. Nothing of a later
    /// one was stored; appends succeed again once the first has ended. Reads of that disk may wait too.
    case stalled = "LOG-0311"
    /// The server was replaced by a promoted standby, which this process has met. It is neither read nor
    /// written.
    case replaced = "LOG-0312"
    /// The database was moved to another log, or is about to be served from there. Nothing was stored; the
    /// message names the address that the operator gave. Reads continue.
    case moved = "LOG-0313"
    /// Another process restores databases into the log, moves one to or from it, or takes a move back, or has
    /// done so meanwhile. Nothing was changed; begin again once it has ended.
    case contended = "LOG-0314"

    /// The entry at `offset` is missing, damaged, or does not follow its predecessor; without an offset, the
    /// file is damaged as a whole. It is not served.
    case corrupt = "LOG-0401"
    /// A chunk of the snapshot at `offset` is missing or damaged. It is not served.
    case corruptSnapshot = "LOG-0402"
}

/// An error of the operation log. Outcomes of single operations are not errors, see `AppendOutcome`.
public struct OperationLogError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The stable code.
    public let code: OperationLogErrorCode
    /// A text for a person, without any operation's content.
    public let message: String
    /// The database concerned, where there is one.
    public let database: DatabaseID?
    /// The offset concerned, where there is one.
    public let offset: Offset?

    /// An error of this code.
    public init(
        _ code: OperationLogErrorCode, _ message: String, database: DatabaseID? = nil, offset: Offset? = nil
    ) {
        self.code = code
        self.message = message
        self.database = database
        self.offset = offset
    }

    /// `LOG-0401: message (database d, offset 7)`.
    public var description: String {
        let context = [database.map { "database \($0)" }, offset.map { "offset \($0)" }].compactMap { $0 }
        let suffix = context.isEmpty ? "" : " (\(context.joined(separator: ", ")))"
        return "\(code.rawValue): \(message)\(suffix)"
    }
}
