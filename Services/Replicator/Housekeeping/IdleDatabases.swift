import CRDT

/// Chooses open databases to close that nobody syncs any more: an open one has connections to its file, and
/// its log is asked for news.
///
/// Some stay open all the same, since opening one makes its first peer wait; of the others those go first
/// that were left first.
struct IdleDatabases {
    private let kept: Int
    private let patience: Duration
    /// When each was first seen without a session, since it had one.
    private var since: [DatabaseID: ContinuousClock.Instant] = [:]

    /// - Parameters:
    ///   - kept: how many stay open without sessions.
    ///   - patience: how long one stays open in any case: its peers may be reconnecting.
    init(kept: Int, patience: Duration) {
        self.kept = kept
        self.patience = patience
    }

    /// The databases to close, the longest idle first.
    /// - Parameter sessions: of every open database how many sessions it has.
    mutating func due(_ sessions: [DatabaseID: Int], at now: ContinuousClock.Instant) -> [DatabaseID] {
        since = sessions.filter { $0.value == 0 }.reduce(into: [:]) { $0[$1.key] = since[$1.key] ?? now }
        let idle = since.sorted { $0.value < $1.value }
        return idle.prefix(max(0, idle.count - kept)).filter { now - $0.value >= patience }.map(\.key)
    }
}
