import Dispatch
import Foundation
import Synchronization

/// Memory that a burst has left free between what is held.
public enum FreeMemory {
    private typealias Trim = @convention(c) (Int) -> Int32

    private static let isComing = Atomic<Bool>(false)
    private static let queue = DispatchQueue(label: "free memory", qos: .background)

    /// Gives it back to the system, where the C library can: some milliseconds.
    public static func giveBack() {
        // Swift's module of the C library does not name it.
        guard let trim = dlsym(nil, "malloc_trim") else { return }
        _ = unsafeBitCast(trim, to: Trim.self)(0)
    }

    /// The same within a minute, once for all who ask meanwhile: something large was let go.
    static func giveBackSoon() {
        guard !isComing.exchange(true, ordering: .relaxed) else { return }
        queue.asyncAfter(deadline: .now() + Limits.memoryPause) {
            isComing.store(false, ordering: .relaxed)
            giveBack()
        }
    }
}
