import Machine
import Synchronization

@testable import Replicator

/// The system's clock, which a test puts forward; the watch looks at it every few milliseconds.
final class MovedClock: Sendable {
    private let aheadSeconds = Atomic<Int64>(0)
    private let pauses = Atomic<Int>(0)

    /// Looks of the watch that have ended.
    var looks: Int { pauses.load(ordering: .acquiring) }

    /// The clock for a replicator's sessions.
    var clock: DeadlineWatch.Clock {
        DeadlineWatch.Clock(
            nowSeconds: { SystemClock.seconds() + self.aheadSeconds.load(ordering: .acquiring) },
            pause: {
                self.pauses.add(1, ordering: .acquiringAndReleasing)
                try? await Task.sleep(for: .milliseconds(5))
            })
    }

    /// Puts the clock forward.
    func advance(bySeconds seconds: Int64) { aheadSeconds.add(seconds, ordering: .acquiringAndReleasing) }
}
