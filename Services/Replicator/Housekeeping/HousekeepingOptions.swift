import CRDT
import OperationLog

/// The bounds of a database's storage: reaping, snapshots, truncation.
public struct HousekeepingOptions: Sendable, Hashable {
    /// The age at which tombstones are reaped; nil reaps none. Must not be less than any peer's, or a peer
    /// could keep deletions that the server has forgotten.
    public var tombstoneTimeToLive: Duration? = Limits.tombstoneTimeToLive
    /// Interval of searching for such tombstones.
    public var reapingInterval = Limits.reapingInterval
    /// Operations after the last snapshot that make a new one worthwhile; nil makes none, and the log
    /// grows.
    public var snapshotOperations: UInt64? = Limits.snapshotOperations
    /// Operations covered by the snapshot that stay, for services that lag a little.
    public var keptOperations = Limits.keptOperations
    /// The age up to which operations stay as well, behind the snapshot too; nil keeps none for their age.
    public var keptAge: Duration?
    /// The bytes of a database's operations beyond which a snapshot is due and fewer operations stay than by
    /// their number and age; nil sets no limit.
    public var mostBytes: UInt64?
    /// Interval of checking for due work.
    public var interval = Limits.housekeepingInterval
    /// How long after the request of an erasure the log is truncated for it: what was uploaded before the
    /// request, and is judged by an instance that has not read it, is in the log by then.
    public var erasureSettling = Limits.erasureSettling
    /// How long a process has to show that it still does it, before another one may.
    var lease: Duration { max(interval * 2, Limits.shortestHousekeepingLease) }

    /// The defaults.
    public init() {}
}

extension HousekeepingOptions {
    /// The measure of a database; nil where neither size nor age counts.
    func measure(
        of database: DatabaseID, in log: any OperationLog, _ measures: LogMeasures?
    ) async throws -> LogMeasure? {
        guard let measures, keptAge != nil || mostBytes != nil else { return nil }
        return try await measures.measure(of: database, in: log)
    }

    /// Returns whether the operations take more room than they may.
    func isTooLarge(_ measure: LogMeasure?) -> Bool {
        guard let measure, let mostBytes else { return false }
        return measure.bytes > mostBytes
    }

    /// The place up to which operations may go that a snapshot covers: by their number and age, and if too
    /// much would be left by that, by their size.
    /// - Parameter hold: operations after it stay for a backup, unless they take too much room.
    func cut(
        before snapshot: Offset, _ measure: LogMeasure?, at now: UInt64, hold: Offset? = nil
    ) -> Offset {
        var cut = min(snapshot.reduced(by: keptOperations), hold ?? snapshot)
        guard let measure else { return cut }
        if let keptAge {
            let age = UInt64(keptAge.components.seconds) * 1_000
            cut = min(cut, measure.offset(notAfter: now > age ? now - age : 0))
        }
        if let mostBytes, measure.bytes(after: cut) > mostBytes {
            // Half of the limit, so that it is not reached again at once.
            cut = max(cut, min(snapshot, measure.offset(leaving: mostBytes / 2)))
        }
        return cut
    }
}
