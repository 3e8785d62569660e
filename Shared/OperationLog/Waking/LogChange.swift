/// A wake-up for a follower of a database: the log has grown, or may have.
public struct LogChange: Sendable {
    /// The appended entries, if they are few and came from this process: durable, in order, without gaps
    /// and with the log's chain hashes, so that a reader at the position before them need not read them
    /// back. Empty if they are unknown, or if several wake-ups were coalesced.
    public let entries: [LogEntry]

    /// A wake-up with the entries known to have caused it.
    public init(entries: [LogEntry] = []) { self.entries = entries }
}

extension AsyncStream<LogChange>.Continuation {
    /// Wakes a reader, for whom at most one wake-up is buffered. A wake-up that replaces another carries no
    /// entries, because they would not be complete: the reader asks the log.
    package func wake(_ change: LogChange) {
        if case .dropped = yield(change), !change.entries.isEmpty { yield(LogChange()) }
    }
}
