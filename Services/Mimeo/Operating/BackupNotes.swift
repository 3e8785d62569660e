import Backup
import CRDT
import Foundation
import Logging
import OperationLog
import ServiceKit

/// Notes in the system database that a backup was made or failed: servers on the log show it as metrics, and
/// keep what the next incremental backup needs. A note that cannot be written costs a warning, no backup.
struct BackupNotes {
    let log: any OperationLog
    /// The place as `--to` names it.
    let place: String
    let logger: Logger

    /// Says again and again that a backup runs, until the task is cancelled. One that is killed says no more,
    /// and so counts as failed.
    /// - Parameter isQuiet: true to say nothing at the beginning, which would be a write for each look.
    func running(isQuiet: Bool) async {
        do {
            if isQuiet { try await Task.sleep(for: Limits.backupSign) }
            while true {
                await change { $0.runsUntilSeconds = Self.now() + Limits.backupSilenceSeconds }
                try await Task.sleep(for: Limits.backupSign)
            }
        } catch {
            // Cancelled: the end of the backup is noted by its caller.
        }
    }

    /// Notes that no backup runs any more, after one that was not needed.
    func unneeded() async {
        await change { if $0.runsUntilSeconds ?? 0 > 0 { $0.runsUntilSeconds = 0 } }
    }

    /// Notes a backup.
    /// - Parameter holdHours: the time for which the log keeps what comes after it; 0 keeps nothing.
    func made(_ manifest: Manifest, in time: Duration, holdHours: UInt32) async {
        let made = BackupRecord.Made(
            atSeconds: Int64(manifest.createdAt / 1_000), milliseconds: Int64(time / .milliseconds(1)),
            bytes: manifest.bytes)
        let isFull = manifest.parent == nil
        await change { record in
            if isFull { record.full = made } else { record.incremental = made }
            record.runsUntilSeconds = 0
            record.holds = manifest.databases.map {
                BackupRecord.Hold(database: DatabaseID($0.database), offset: Offset($0.through))
            }
            // Not nil: a field that a record lacks stays in its document.
            record.holdEndsAtSeconds = holdHours == 0 ? 0 : Self.now() + Int64(holdHours) * 3_600
        }
    }

    /// Notes that a check found everything right.
    func verified() async { await change { $0.verifiedAtSeconds = Self.now() } }

    /// Notes that a backup or a check failed.
    func failed(_ error: any Error) async {
        let code =
            (error as? BackupError)?.code.rawValue ?? (error as? OperationLogError)?.code.rawValue
            ?? "\(type(of: error))"
        await change { ($0.failedAtSeconds, $0.failure, $0.runsUntilSeconds) = (Self.now(), code, 0) }
    }

    private static func now() -> Int64 { Int64(Date().timeIntervalSince1970) }

    private func change(_ body: @escaping @Sendable (inout BackupRecord) -> Void) async {
        do {
            // A log without a system database has no servers.
            guard try await log.databaseExists(SystemDatabase.id) else { return }
            let place = place
            try await SystemDatabase.once(of: log, logger: logger) { system in
                try await system.write { writer in
                    var record = try writer.get(place) ?? BackupRecord(id: place)
                    body(&record)
                    try writer.put(record)
                }
            }
        } catch {
            logger.warning("the servers are not told of the backup", metadata: ["error": "\(error)"])
        }
    }
}
