import Synchronization

/// How fast one session may have documents deleted anew (rule 14): whoever reads a document can show a vector
/// that it never had, and each entry that this costs is in the log for good. Bound:
/// `Limits.deletedAnewDocuments` a second, and as many at once.
///
/// `next` is the time at which everything so far would have been done at that pace.
final class DeletionPace: Sendable {
    private let next = Mutex(ContinuousClock.now)

    /// Waits until so many documents more are within the pace.
    func wait(for documents: Int) async throws {
        let pause = pause(for: documents, at: .now)
        if pause > .zero { try await Task.sleep(for: pause) }
    }

    /// Counts so many documents more; returns how long they have to wait.
    func pause(for documents: Int, at now: ContinuousClock.Instant) -> Duration {
        let debt = next.withLock { next in
            next = max(next, now) + .seconds(1) * documents / Limits.deletedAnewDocuments
            return next - now
        }
        return max(.zero, debt - .seconds(1))
    }
}
