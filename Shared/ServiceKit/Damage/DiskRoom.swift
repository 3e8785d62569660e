import Foundation
import Synchronization

/// Watches the room on the disks that a service writes to. The last part of a disk is kept for those who make
/// room: an operator who logs in, housekeeping that truncates the log, a revocation.
///
/// The reserve is `percent` of the disk, and never more than `Limits.diskReserveBytes`. A disk is looked at
/// when somebody asks, at most every `Limits.diskLook`, so the state ends by itself when room returns.
public final class DiskRoom: Sendable {
    /// The room on one disk.
    public struct Room: Sendable {
        /// Bytes that are free for this user.
        public var freeBytes: Int64
        /// All bytes of the disk.
        public var totalBytes: Int64
    }

    private struct State {
        var looked: ContinuousClock.Instant?
        var isNearlyFull = false
        var fullest = 100
    }

    private let folders: [String]
    /// The file of the log; nil where it is in PostgreSQL.
    private let logFile: String?
    private let percent: Int
    private let measure: @Sendable (_ folder: String) -> Room?
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())

    /// - Parameters:
    ///   - folders: folders on the disks to watch.
    ///   - percent: the reserve; 0 keeps none.
    ///   - logFile: the file of the log, if it has one.
    public convenience init(folders: [String], percent: Int, logFile: String? = nil) {
        self.init(folders: folders, percent: percent, logFile: logFile, now: { .now }) { Self.measured($0) }
    }

    init(
        folders: [String], percent: Int, logFile: String? = nil,
        now: @escaping @Sendable () -> ContinuousClock.Instant,
        measure: @escaping @Sendable (_ folder: String) -> Room?
    ) {
        (self.folders, self.percent, self.now, self.measure) = (folders, percent, now, measure)
        self.logFile = logFile
    }

    /// True while only the reserve is left on one of the disks.
    public var isNearlyFull: Bool { look().isNearlyFull }

    /// Free share of the fullest disk, in percent.
    var freePercent: Int { look().fullest }

    /// Size of the log's file with its write-ahead log; nil where there is none.
    var logBytes: Int64? {
        guard let logFile else { return nil }
        return ["", "-wal"].reduce(0) { sum, suffix in
            let size = try? FileManager.default.attributesOfItem(atPath: logFile + suffix)[.size]
            return sum + ((size as? NSNumber)?.int64Value ?? 0)
        }
    }

    private func look() -> State {
        let now = now()
        return state.withLock { state in
            if let looked = state.looked, now - looked < Limits.diskLook { return state }
            state = State(looked: now)
            for folder in folders {
                guard let room = measure(folder), room.totalBytes > 0 else { continue }
                let share = Int(Double(room.freeBytes) / Double(room.totalBytes) * 100)
                let reserve = min(
                    Int64(Double(room.totalBytes) / 100 * Double(percent)), Limits.diskReserveBytes)
                state.fullest = min(state.fullest, share)
                if room.freeBytes < reserve { state.isNearlyFull = true }
                let labels = [("folder", folder)]
                Measured.set("disk_free_bytes", labels, Double(room.freeBytes))
                Measured.set("disk_size_bytes", labels, Double(room.totalBytes))
                Measured.set("mimeo_disk_free_bytes", [("volume", folder)], Double(room.freeBytes))
                Measured.set("mimeo_disk_size_bytes", [("volume", folder)], Double(room.totalBytes))
            }
            for name in ["disk_nearly_full", "mimeo_disk_nearly_full"] {
                Measured.set(name, state.isNearlyFull ? 1 : 0)
            }
            return state
        }
    }

    /// The room on a folder's disk now; nil if there is no such folder.
    public static func measured(_ folder: String) -> Room? {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { return nil }
        let block = Int64(status.f_frsize)
        return Room(
            freeBytes: Int64(clamping: status.f_bavail) * block,
            totalBytes: Int64(clamping: status.f_blocks) * block)
    }
}
