import Dispatch
import Glibc
import Synchronization

/// The file beside the log through which processes wake each other, and exclude each other while they open
/// it.
///
/// A writer changes its one byte a moment after a commit; inotify tells the others. Watching the
/// write-ahead log instead would be worse: it changes before a commit is visible, and also for transactions
/// that are rolled back. The byte means nothing and is never synced. Losing the file loses hints until the
/// log is opened again, never an operation.
///
/// A listener holds a shared lock on the file's second byte, from before its first look at the log. So a
/// writer that is alone wakes nobody, itself included. A process that waits for another's opening is no
/// listener yet: the first of several processes that start at once is alone, and sees what a crash has left.
/// Whoever restores or moves databases holds an exclusive one on the third byte.
///
/// The ring is delayed because readers of this process come first, and because one ring is enough for all
/// commits of that moment: processes woken for each would compete for the same processors with the work
/// that the commit began.
///
/// The descriptor is constant from `init` to `deinit`; its calls are atomic in the kernel.
final class WakeFile: Sendable {
    let path: String
    private let descriptor: Int32
    /// True if other processes can see that this one listens; false before the opening, and on a file system
    /// without such locks.
    private let isListed = Atomic(false)
    /// True while this opening has the making of drafts.
    private let isReserved = Atomic(false)
    /// True while a ring is scheduled.
    private let isDue = Atomic(false)
    private let queue = DispatchQueue(label: "mimeo.operation-log.ring")

    /// Opens the bell of a log, creating it if it is missing.
    init(logPath: String) throws(OperationLogError) {
        path = logPath + "-wake"
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw OperationLogError(.cannotOpen, "cannot open \(path): \(systemMessage(errno))")
        }
    }

    deinit { Glibc.close(descriptor) }

    private func listen() {
        var listening = Self.lock(Self.listeners, Int16(F_RDLCK))
        isListed.store(fcntl(descriptor, Self.setLock, &listening) == 0, ordering: .releasing)
    }

    /// Stops being one of those who have the log open, before this object ends.
    func leave() {
        release()
        var nobody = Self.lock(Self.listeners, Int16(F_UNLCK))
        _ = fcntl(descriptor, Self.setLock, &nobody)
    }

    /// Tells the other processes about a commit, `LogLimits.ringDelay` from now. A failure is not reported:
    /// they poll as well.
    func ringSoon() {
        guard !isListed.load(ordering: .acquiring) || hasOtherListeners,
            !isDue.exchange(true, ordering: .acquiringAndReleasing)
        else {
            return
        }
        queue.asyncAfter(deadline: .now() + .microseconds(Int(LogLimits.ringDelay.microseconds))) {
            self.ringIfDue()
        }
    }

    /// Rings at once if a ring is scheduled.
    func ringIfDue() {
        guard isDue.exchange(false, ordering: .acquiringAndReleasing) else { return }
        var byte: UInt8 = 1
        _ = pwrite(descriptor, &byte, 1, 0)
    }

    /// True if another process (or another opening in this one) has the log open.
    var hasOtherListeners: Bool {
        var other = Self.lock(Self.listeners, Int16(F_WRLCK))
        return fcntl(descriptor, Self.findLock, &other) != 0 || other.l_type != Int16(F_UNLCK)
    }

    /// Takes the making of drafts in this log for this opening; the system gives it back with the process. A
    /// file system without such locks excludes nobody.
    /// - Returns: false while an opening has it, this one included.
    func reserve() -> Bool {
        guard !isReserved.exchange(true, ordering: .acquiringAndReleasing) else { return false }
        var drafts = Self.lock(Self.drafts, Int16(F_WRLCK))
        let isMine = fcntl(descriptor, Self.setLock, &drafts) == 0 || ![EAGAIN, EACCES].contains(errno)
        if !isMine { isReserved.store(false, ordering: .releasing) }
        return isMine
    }

    /// Lets another opening make drafts.
    func release() {
        var drafts = Self.lock(Self.drafts, Int16(F_UNLCK))
        _ = fcntl(descriptor, Self.setLock, &drafts)
        isReserved.store(false, ordering: .releasing)
    }

    /// The bytes that listeners and the maker of drafts lock. Such a lock belongs to the open file, not to
    /// the process, which may have the log open twice.
    private static let (listeners, drafts) = (1, 2)

    private static func lock(_ byte: Int, _ kind: Int16) -> Glibc.flock {
        Glibc.flock(l_type: kind, l_whence: Int16(SEEK_SET), l_start: byte, l_len: 1, l_pid: 0)
    }

    /// Linux's F_OFD_GETLK and F_OFD_SETLK, which the C library declares on request only.
    private static let (findLock, setLock): (Int32, Int32) = (36, 37)

    /// Opens the log with a body, and listens from then on, unless the body throws: the next process that
    /// opens the log is alone, too.
    func opening<Result>(timeout: Duration, _ body: () throws -> Result) throws -> Result {
        try withOpeningLock(timeout: timeout) {
            listen()
            do {
                return try body()
            } catch {
                leave()
                throw error
            }
        }
    }

    /// Runs the body while no other process is inside one for this log.
    func withOpeningLock<Result>(timeout: Duration, _ body: () throws -> Result) throws -> Result {
        let deadline = ContinuousClock.now + timeout
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR, ContinuousClock.now < deadline else {
                throw OperationLogError(.busy, "another process is still opening the log of \(path)")
            }
            usleep(useconds_t(LogLimits.busyRetry.microseconds))
        }
        defer { flock(descriptor, LOCK_UN) }
        return try body()
    }
}

extension Duration {
    /// Whole microseconds.
    var microseconds: Int64 { components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000 }
}

/// The system's text for an error number.
func systemMessage(_ number: Int32) -> String { String(cString: strerror(number)) }
