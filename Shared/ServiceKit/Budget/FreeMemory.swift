import Dispatch
import Foundation
import Synchronization

/// Memory that a burst has left free between what is held.
public enum FreeMemory {
    private typealias Trim = @convention(c) (Int) -> Int32
    private typealias Option = @convention(c) (Int32, Int32) -> Int32

    /// Bytes that clients have let go of since free memory was given back.
    private static let freed = Atomic<Int>(0)
    private static let isComing = Atomic<Bool>(false)
    private static let isComingSoon = Atomic<Bool>(false)
    private static let isComingAgain = Atomic<Bool>(false)
    /// Others wait for a heap that is locked meanwhile, so no work comes before this.
    private static let queue = DispatchQueue(label: "free memory", qos: .userInitiated)

    /// Once, before there are threads: lets the C library leave less memory free, where it can be told.
    ///
    /// By itself it has eight heaps for each processor, and one heap does not use what is free in another. It
    /// takes large blocks from the heaps too, between which small ones stay. Half of the memory of a server
    /// under attack was free. An operator's own settings of the library count.
    public static func keepLittle() {
        // Swift's module of the C library names neither the function nor its options.
        guard let found = dlsym(nil, "mallopt") else { return }
        let option = unsafeBitCast(found, to: Option.self)
        let heaps = Limits.heapsOfProcessor * ProcessInfo.processInfo.activeProcessorCount
        for (name, number, value) in [
            ("MALLOC_ARENA_MAX", -8, heaps), ("MALLOC_MMAP_THRESHOLD_", -3, Limits.ownBlockBytes),
            ("MALLOC_TRIM_THRESHOLD_", -1, Limits.heapEndBytes),
        ] where getenv(name) == nil { _ = option(Int32(number), Int32(value)) }
    }

    /// Gives it back to the system, where the C library can: some milliseconds.
    public static func giveBack() {
        freed.store(0, ordering: .relaxed)
        guard let trim = dlsym(nil, "malloc_trim") else { return }
        _ = unsafeBitCast(trim, to: Trim.self)(0)
    }

    /// The same later, once for all who let go of something meanwhile: within a minute, and much of it
    /// within seconds, twice.
    static func giveBack(after bytes: Int) {
        let sum = freed.add(bytes, ordering: .relaxed).newValue
        if sum >= Limits.muchFreeBytes {
            guard !isComingSoon.exchange(true, ordering: .relaxed) else { return }
            queue.asyncAfter(deadline: .now() + Limits.shortMemoryPause) {
                isComingSoon.store(false, ordering: .relaxed)
                giveBack()
            }
            // Files and folds of clients that have left are closed later, and no hold counts them.
            guard !isComingAgain.exchange(true, ordering: .relaxed) else { return }
            queue.asyncAfter(deadline: .now() + Limits.laterMemoryPause) {
                isComingAgain.store(false, ordering: .relaxed)
                giveBack()
            }
        } else if sum >= Limits.largeHoldBytes {
            guard !isComing.exchange(true, ordering: .relaxed) else { return }
            queue.asyncAfter(deadline: .now() + Limits.memoryPause) {
                isComing.store(false, ordering: .relaxed)
                giveBack()
            }
        }
    }
}
