import CRDT
import ServiceKit
import Synchronization

/// How many answers each user has kept in one database, as of the last count by this process; other processes
/// write some too. The lanes of a projection share it. The lock is never held across a wait.
final class KeptAnswerCount: Sendable {
    private let bounds: QueryServicePart.Bounds
    private let last = Mutex<KeptAnswers.Census?>(nil)

    init(_ bounds: QueryServicePart.Bounds) { self.bounds = bounds }

    /// Counts, unless that was done a moment ago.
    func update(
        for key: IdempotencyKey, from offset: Offset, _ store: any ProjectionStore, _ evaluation: Evaluation
    ) async throws {
        let patience = hasTooMany(key) ? Limits.keptAnswersSecondLook : Limits.keptAnswersLook
        let isRecent = last.withLock { $0.map { ContinuousClock.now - $0.at < patience } ?? false }
        if isRecent { return }
        let since = bounds.nowSeconds() - bounds.keptAnswers.components.seconds
        let census = try await store.read(from: offset, evaluation) { documents in
            try KeptAnswers.Census(documents, since: since)
        }
        last.withLock { $0 = census }
    }

    /// Returns whether a user has kept as many as are allowed.
    func hasTooMany(_ key: IdempotencyKey) -> Bool {
        last.withLock { $0?.counts[key.user, default: 0] ?? 0 >= bounds.keptAnswersPerUser }
    }

    /// Answers that are old enough to go, some at a time.
    var toRemove: [DocumentID] {
        last.withLock { Array($0?.old.prefix(Limits.keptAnswersRemoved) ?? []) }
    }

    /// Counts one more, which a mark of what was undone is not, and so many fewer to remove.
    func note(_ key: IdempotencyKey, removed: Int) {
        last.withLock { census in
            guard var counted = census else { return }
            if key.undone == nil { counted.counts[key.user, default: 0] += 1 }
            counted.old.removeFirst(min(removed, counted.old.count))
            census = counted
        }
    }
}
