import Logging
import Synchronization

/// Remembers which copies of the log's documents were damaged and rebuilt in this process.
///
/// A materialization, a query replica and the fold of the system database are copies: they are rebuilt from
/// the log, by themselves. A copy that is damaged again within `Limits.damageWindow` is a failing disk, or a
/// defect: it is still rebuilt, but seldom, and health says so. The log itself is no copy: see `GuardedLog`.
public final class DamageLedger: Sendable {
    /// The ledger of this process: disks fail for all of its services alike.
    public static let shared = DamageLedger()

    private struct Entry {
        var moments: [ContinuousClock.Instant] = []
        var reason = ""
    }

    private let entries = Mutex<[String: Entry]>([:])
    private let now: @Sendable () -> ContinuousClock.Instant

    /// An empty ledger.
    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// Notes the damage of a copy, which is going to be rebuilt.
    func note(_ folder: String, reason: String, logger: Logger) {
        let now = now()
        let count = entries.withLock { entries in
            var entry = entries[folder, default: Entry()]
            entry.moments.removeAll { now - $0 > Limits.damageWindow }
            entry.moments.append(now)
            entry.moments = entry.moments.suffix(Limits.notedDamages)
            entry.reason = reason
            entries[folder] = entry
            return entry.moments.count
        }
        Measured.count("mimeo_storage_copies_damaged_total", formerly: "storage_copies_damaged_total")
        logger.error(
            "a copy of the log's documents is damaged and is rebuilt from the log",
            metadata: ["folder": "\(folder)", "error": "\(reason)", "times": "\(count)"])
    }

    /// Refuses a rebuild that would follow the last one too soon.
    /// - Throws: `SRV-0501`.
    func admitRebuild(of folder: String) throws(ServiceError) {
        let now = now()
        let isTooSoon = entries.withLock { entries in
            guard let moments = entries[folder]?.moments, moments.count > 1, let last = moments.last else {
                return false
            }
            return now - last < Limits.damagePause
        }
        guard !isTooSoon else {
            throw ServiceError(
                .copyDamaged, "the server's copy of this database was damaged repeatedly; see its log")
        }
    }

    /// Forgets a copy whose database was erased: its folder is gone.
    func forget(_ folder: String) { entries.withLock { $0[folder] = nil } }

    /// Copies that were damaged more than once within the window.
    var repeated: [String] {
        let now = now()
        return entries.withLock { entries in
            entries.filter { $0.value.moments.filter { now - $0 <= Limits.damageWindow }.count > 1 }
                .keys.sorted()
        }
    }
}
