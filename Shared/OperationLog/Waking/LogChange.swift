/// A wake-up of whoever follows a database: it has grown, or may have.
public struct LogChange: Sendable {
    /// What was appended, where that is little and came from this process: durable, in order, without holes
    /// and with the log's own chain hashes, so that a reader at the place before need not read it back.
    /// Empty where it is not known. What comes before a slow reader has taken this takes its place.
    public let entries: [LogEntry]

    /// A wake-up with what is known of the reason.
    public init(entries: [LogEntry] = []) { self.entries = entries }
}
