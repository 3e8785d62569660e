/// The identity of one database's log: sixteen random bytes, drawn when the database is created.
public struct LogID: Hashable, Sendable {
    /// The number of bytes.
    public static let byteCount = 16
    /// The sixteen bytes.
    public let bytes: [UInt8]

    /// An id of these bytes; nil unless there are sixteen.
    public init?(bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = bytes
    }
}

extension LogID: CustomStringConvertible {
    /// Thirty-two hexadecimal digits.
    public var description: String {
        bytes.map { $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16) }.joined()
    }
}

/// A place in one database's log, with the hash of the history before it. Cursors and checkpoints hold
/// positions (rule 18).
///
/// Logs that differ in identity, length or history have different positions. A reader that finds a
/// difference reconciles; it never guesses.
public struct LogPosition: Hashable, Sendable {
    /// The log.
    public let logID: LogID
    /// The offset of the last operation before this place; 0 at the start.
    public let offset: Offset
    /// The chain hash at that offset.
    public let hash: UInt64

    /// A position as stored in a cursor. Only the log can tell if it has this position.
    public init(logID: LogID, offset: Offset, hash: UInt64) {
        self.logID = logID
        self.offset = offset
        self.hash = hash
    }
}
