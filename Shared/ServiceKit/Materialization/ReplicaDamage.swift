import Synchronization

/// Damage that a read or fold of the replica has met. Calls come from any thread.
final class ReplicaDamage: Sendable {
    private let state = Mutex(false)
    /// Never has an element; ends when damage was met, or with the following.
    let absence: AsyncStream<Void>
    private let absenceEnd: AsyncStream<Void>.Continuation

    init() { (absence, absenceEnd) = AsyncStream.makeStream() }

    var isThere: Bool { state.withLock { $0 } }

    /// Returns whether this is the first.
    func note() -> Bool {
        let isFirst = state.withLock { state in
            defer { state = true }
            return !state
        }
        absenceEnd.finish()
        return isFirst
    }

    /// Ends the wait for damage.
    func end() { absenceEnd.finish() }
}
