import Glibc

/// Memory that a burst has left free between what is held.
enum FreeMemory {
    private typealias Trim = @convention(c) (Int) -> Int32

    /// Gives it back to the system, where the C library can: some milliseconds.
    static func giveBack() {
        // Swift's module of the C library does not name it.
        guard let trim = dlsym(nil, "malloc_trim") else { return }
        _ = unsafeBitCast(trim, to: Trim.self)(0)
    }
}
