import CFaultVFS
import Foundation

/// A disk below SQLite that a test cuts off, fills and breaks: everything in one folder, opened by whoever
/// opens SQLite files there. What it does exactly stands in `CFaultVFS.h`.
///
/// One disk is one machine: it loses its power, its space and its calls alone. A cut is decided by the seed
/// and by the calls made since, so a store that is used from one thread is cut the same way every time.
///
/// The pointer is constant, and what it points to is guarded by a mutex of its own.
public final class FaultDisk: @unchecked Sendable {
    /// How a call fails.
    public enum Fault: Int32, CaseIterable, Sendable {
        /// Any call fails with an I/O error and does nothing.
        case ioError = 1
        /// A call that needs space finds enough for half of it.
        case diskFull = 2
        /// A write stops after half of it with an I/O error.
        case shortWrite = 3
        /// A sync fails, and what it should have saved counts as clean, as on Linux.
        case failedSync = 4
        /// The write-ahead log's index finds no space to grow.
        case memoryFull = 5
    }

    /// The numbers of calls on the disk's files.
    public typealias Counts = fault_counts

    private let disk: OpaquePointer

    /// A disk that holds what is in a folder, which must exist. Open no file there before.
    public init(folder: URL, seed: UInt64) {
        // SQLite resolves links before it asks for a path.
        let path = folder.resolvingSymlinksInPath().path
        guard let disk = fault_disk_begin(path.hasSuffix("/") ? path : path + "/", seed) else {
            preconditionFailure("a disk begins or ends the process")
        }
        self.disk = disk
    }

    /// Lets SQLite go without locks, on memory and on files: for a process of one thread that shares its
    /// files with nobody. Before anything else of SQLite is used.
    public static func useOneThread() {
        let code = fault_use_one_thread()
        precondition(code == 0, "SQLite does not go without locks: \(code)")
    }

    deinit {
        // A disk whose files are open still goes on for them; that costs its memory only.
        fault_disk_spare(disk)
        _ = fault_disk_end(disk)
    }

    /// Cuts the power during the n-th call from now that changes the disk, at once for 0. From then on every
    /// call fails until `restart`.
    public func cutPower(duringCall number: Int = 0) { fault_disk_cut(disk, UInt64(number)) }

    /// Takes back a cut that has not come.
    public func sparePower() { fault_disk_spare(disk) }

    /// True if the power is off.
    public var isOff: Bool { fault_disk_is_off(disk) != 0 }

    /// Loses what was not synced and gives the power back; also without a cut. Whoever had files open must
    /// have closed them: a machine that starts again has no open files.
    public func restart() {
        let open = fault_disk_restart(disk)
        precondition(open == 0, "\(open) files are open while their machine starts again")
    }

    /// Lets the n-th call from now (from 1) of those the fault concerns fail, and if it persists all later
    /// ones too.
    public func fail(_ fault: Fault, atCall number: Int, persistently: Bool = false) {
        fault_disk_fail(disk, fault.rawValue, UInt64(number), persistently ? 1 : 0)
    }

    /// Ends what `fail` began.
    public func heal() { fault_disk_fail(disk, 0, 0, 0) }

    /// Bytes by which the files may still grow; nil for as many as they like.
    public func limitSpace(to bytes: Int?) { fault_disk_set_space(disk, bytes.map(Int64.init) ?? -1) }

    /// The numbers of calls so far.
    public var counts: Counts { fault_disk_counts(disk) }

    /// Files that are open.
    public var openFiles: Int { Int(fault_disk_handles(disk)) }
}
