import CRDT
import OperationLog

/// The point to which a restore goes.
public enum RestorePoint: Sendable, Equatable {
    /// The end of the backup.
    case latest
    /// The offset in the one database that is restored.
    case offset(Offset)
    /// Milliseconds since 1970: the longest beginning of each log without an operation that was written later
    /// (decision 0067).
    case time(UInt64)
}

/// The stretch of a backup that one database is restored from.
struct RestorePlan {
    let database: DatabaseID
    let run: Run
    let through: Offset
    /// The greatest time of an operation up to there.
    let time: UInt64

    /// Reads the run to its end, so that nothing is written for a damaged backup, and finds the offset.
    /// - Returns: nil when the database did not exist at that time.
    /// - Throws: `BAK-0202`, `BAK-0204`, `BAK-0403`.
    static func make(
        _ database: DatabaseID, in chain: [ChainedBackup], to point: RestorePoint
    ) throws -> RestorePlan? {
        let runs = try Runs(of: database, in: chain).all
        guard let newest = runs.last else { return nil }
        switch point {
        case .latest: return try make(database, newest) { _ in true }
        case .offset(let offset):
            let found = runs.last { $0.first.from <= offset.rawValue && offset.rawValue <= $0.last.through }
            guard let found else {
                let ranges = runs.map { "\($0.first.from) to \($0.last.through)" }.joined(separator: ", ")
                throw BackupError(
                    .pointUnreachable,
                    "database \(database) can be restored to the offsets \(ranges), not to \(offset)")
            }
            return try make(database, found) { $0.offset <= offset }
        case .time(let limit):
            guard let found = runs.last(where: { $0.first.fromTime <= limit }) else {
                guard runs[0].first.base == .snapshot else { return nil }
                throw BackupError(
                    .pointUnreachable,
                    "the oldest state of database \(database) in this backup is younger; use an earlier one")
            }
            let plan = try make(database, found) { HybridClock.milliseconds(of: $0.timestamp) <= limit }
            // Nothing had been written by then, so whether the database existed is not known.
            return plan.through == 0 && plan.run.last.through > 0 ? nil : plan
        }
    }

    private static func make(
        _ database: DatabaseID, _ run: Run, while isWanted: (LogEntry) -> Bool
    ) throws -> RestorePlan {
        var (through, time, isOver) = (Offset(run.first.from), run.first.fromTime, false)
        try run.read { item in
            guard case .entry(let entry) = item, !isOver else { return true }
            isOver = !isWanted(entry)
            if !isOver {
                through = entry.offset
                time = max(time, HybridClock.milliseconds(of: entry.timestamp))
            }
            return true
        }
        return RestorePlan(database: database, run: run, through: through, time: time)
    }

    /// The digest that the manifest has for this place; nil if it has none.
    var knownDigest: String? { run.pieces.last { $0.part.through == through.rawValue }?.part.digest }
}
