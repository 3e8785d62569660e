/// A wake-up of whoever follows a database: it has grown, or may have.
public struct LogChange: Sendable {
    /// What was appended, where that is little and came from this process: durable, in order, without holes
    /// and with the log's own chain hashes, so that a reader at the place before need not read it back.
    /// Empty where it is not known, or where several wake-ups have become one.
    public let entries: [LogEntry]

    /// A wake-up with what is known of the reason.
    public init(entries: [LogEntry] = []) { self.entries = entries }
}

extension AsyncStream<LogChange>.Continuation {
    /// Wakes a reader, of whom one wake-up waits at most. What takes the place of another one does not stand
    /// for that: the log is to be asked then.
    package func wake(_ change: LogChange) {
        if case .dropped = yield(change), !change.entries.isEmpty { yield(LogChange()) }
    }
}
