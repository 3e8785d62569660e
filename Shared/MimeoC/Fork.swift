import Glibc
import Synchronization

/// Knows whether this process is the child of a fork.
///
/// A child has none of the threads, and locks stay as they were at the fork. So it has to be refused before
/// anything is locked. The flag is set by the C library in the child itself: asking for the process's id
/// would cost a system call each time.
enum Fork {
    private static let flag = Atomic<Bool>(false)

    static var isChild: Bool { flag.load(ordering: .relaxed) }

    /// Begins to watch, once.
    static func watch() { _ = isWatched }

    private static let isWatched = pthread_atfork(nil, nil) { Fork.mark() } == 0

    private static func mark() { flag.store(true, ordering: .relaxed) }
}
