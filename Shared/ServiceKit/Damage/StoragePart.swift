import CRDT
import Foundation
import OperationLog
import Postgres

/// The storage as a part of a host: one place for the health of log, copies and disks.
///
/// It also reads the whole log slowly, after the start and then once a day: damage of what nobody reads would
/// go unnoticed.
public struct StoragePart: ServicePart {
    /// `storage`.
    public let name = "storage"
    private let log: any OperationLog
    private let room: DiskRoom?
    private let temporary: String
    private let ledger: DamageLedger

    /// A part for this log.
    /// - Parameters:
    ///   - room: the disks that the services write to; nil watches none.
    ///   - temporary: the folder of SQLite's temporary files.
    public init(log: any OperationLog, room: DiskRoom?, temporary: String) {
        self.init(log: log, room: room, temporary: temporary, ledger: .shared)
    }

    init(log: any OperationLog, room: DiskRoom?, temporary: String = "/", ledger: DamageLedger) {
        (self.log, self.room, self.temporary, self.ledger) = (log, room, temporary, ledger)
    }

    /// Reads the log.
    public func mount(on mount: inout ServiceMount) {
        guard let log = log as? GuardedLog else { return }
        mount.background("log check") {
            while true {
                // An unreachable log is everybody's concern, and said elsewhere.
                try? await log.verify()
                try await Task.sleep(for: Limits.scrubInterval)
            }
        }
        mount.background("log room") {
            while true {
                await log.tryAgain()
                await log.lookForMove()
                try await Task.sleep(for: Limits.roomInterval)
            }
        }
    }

    /// Failing while the log is damaged, a copy was damaged repeatedly, a disk is nearly full, full or
    /// read-only, temporary files cannot be made, or the log's storage is slow, was replaced or was moved.
    public func health() async -> HealthCheck {
        if let damage = log.status.damage {
            let place = damage.offset.map { " at offset \($0)" } ?? ""
            let database = damage.database.map { " of database \($0)" } ?? ""
            return .failing(
                "\(damage.code.rawValue): the operation log\(database) is damaged\(place); "
                    + "restore it from a backup")
        }
        if !ledger.repeated.isEmpty {
            return .failing(
                "\(ServiceErrorCode.copyDamaged.rawValue): \(ledger.repeated.count) copies of the log's "
                    + "documents were damaged repeatedly; check the disk, see the service's log")
        }
        if let room, room.isNearlyFull {
            return .failing(
                "\(OperationLogErrorCode.nearlyFull.rawValue): a disk is nearly full "
                    + "(\(room.freePercent) % free): writes are refused, reads go on")
        }
        if access(temporary, W_OK | X_OK) != 0 {
            return .failing(
                "\(ServiceErrorCode.temporaryFolderUnusable.rawValue): temporary files cannot be made in "
                    + "\(temporary): large sorts fail; give the folder to the server's user")
        }
        if let refusal = storageRefusal { return .failing("\(refusal.code.rawValue): \(refusal.message)") }
        if let pace = (log as? GuardedLog)?.slowPace {
            return .failing(
                "\(ServiceErrorCode.storageSlow.rawValue): the log's storage is slow: the last commits took "
                    + "\(pace.components.seconds) s or more each; nothing is refused")
        }
        return .ok
    }

    /// The log's refusal because of its storage: it is full, stands still, a commit on it failed, or another
    /// server or log has replaced it.
    private var storageRefusal: OperationLogError? {
        log.status.refusal.flatMap {
            [.stalled, .poisoned, .storageFull, .replaced, .moved].contains($0.code) ? $0 : nil
        }
    }

    /// Not ready while only the reserve is left on a disk, it is full or stands still, a commit on it failed,
    /// the server was replaced, or the log was moved: writes are refused, or wait.
    public func readiness() async -> [Unreadiness] {
        if let refusal = storageRefusal {
            return [Unreadiness(part: name, code: refusal.code.rawValue, message: refusal.message)]
        }
        guard let room, room.isNearlyFull else { return [] }
        return [
            Unreadiness(
                part: name, code: OperationLogErrorCode.nearlyFull.rawValue,
                message: "a disk is nearly full (\(room.freePercent) % free)")
        ]
    }

    /// Tells offsets and size of the log, of the first `Limits.watchedDatabases` databases, and disks.
    public func measure() async {
        _ = room?.isNearlyFull
        if let size = room?.logBytes { Measured.set("mimeo_log_size_bytes", Double(size)) }
        let status = log.status
        if let guarded = log as? GuardedLog {
            Measured.set("mimeo_log_append_age_seconds", guarded.appendAge / .seconds(1))
        }
        let isFull = status.refusal?.code == .storageFull
        Measured.set("mimeo_log_refusing", status.refusesAtOnce || isFull ? 1 : 0)
        if let figures = await (log as? GuardedLog)?.serverFigures() { Self.tell(figures) }
        Measured.set("mimeo_log_queued_operations", Double(status.queuedOperations))
        Measured.set("mimeo_log_queued_bytes", Double(status.queuedBytes))
        Measured.set("mimeo_log_waiting_appends", Double(status.waitingAppends))
        guard let all = try? await log.databases().sorted() else { return }
        var (heads, oldest, snapshots): (Readings, Readings, Readings) = ([], [], [])
        for id in all.prefix(Limits.watchedDatabases) {
            guard let head = try? await log.head(of: id).offset,
                let truncated = try? await log.truncation(of: id).offset
            else { continue }
            heads.append((id, Double(head.rawValue)))
            oldest.append((id, Double(truncated.rawValue)))
            if let snapshot = try? await log.snapshot(of: id) {
                snapshots.append((id, Double(snapshot.position.offset.rawValue)))
            }
        }
        Measured.replace("mimeo_log_head_offset", byDatabase: heads)
        Measured.replace("mimeo_log_oldest_offset", byDatabase: oldest)
        Measured.replace("mimeo_log_snapshot_offset", byDatabase: snapshots)
    }

    private static func tell(_ figures: PostgresFigures) {
        Measured.set("mimeo_log_size_bytes", Double(figures.databaseBytes))
        let others = [
            ("mimeo_postgres_timeline", figures.timeline),
            ("mimeo_postgres_wal_bytes", figures.writeAheadBytes),
            ("mimeo_postgres_standbys", figures.standbys),
            ("mimeo_postgres_standby_lag_bytes", figures.standbyLagBytes),
        ]
        for case (let name, let value?) in others { Measured.set(name, Double(value)) }
    }

    private typealias Readings = [(DatabaseID, Double)]
}
