import Synchronization

/// Batches that are folded and not published yet. The fold waits while a few of them do, so a fan-out that is
/// slower than the log grows costs time and no memory.
///
/// Invariants: batches leave in the order in which they came; one side puts, one takes. `state` guards all;
/// nobody is resumed under it.
final class FoldQueue<Batch: Sendable>: Sendable {
    private struct State {
        var batches: [Batch] = []
        var taking: CheckedContinuation<Batch?, Never>?
        var putting: CheckedContinuation<Void, Never>?
        var isClosed = false
    }

    private let state = Mutex(State())

    /// How many batches wait.
    var count: Int { state.withLock { $0.batches.count } }

    /// Puts a batch behind the others; returns when there is room for the next one, or nobody takes any more.
    func put(_ batch: Batch) async {
        let taking = state.withLock { state -> CheckedContinuation<Batch?, Never>? in
            guard !state.isClosed else { return nil }
            if state.taking == nil { state.batches.append(batch) }
            return state.taking.take()
        }
        if let taking { return taking.resume(returning: batch) }
        await withCheckedContinuation { continuation in
            let hasRoom = state.withLock { state in
                let hasRoom = state.isClosed || state.batches.count < Limits.unpublishedFolds
                if !hasRoom { state.putting = continuation }
                return hasRoom
            }
            if hasRoom { continuation.resume() }
        }
    }

    /// The next batch, as soon as there is one; nil when it is closed.
    func next() async -> Batch? {
        await withCheckedContinuation { continuation in
            let (batch, isClosed, putting) = state.withLock { state in
                let batch = state.isClosed || state.batches.isEmpty ? nil : state.batches.removeFirst()
                if batch == nil, !state.isClosed { state.taking = continuation }
                return (batch, state.isClosed, batch == nil ? nil : state.putting.take())
            }
            putting?.resume()
            if batch != nil || isClosed { continuation.resume(returning: batch) }
        }
    }

    /// Lets both sides go; what waits is dropped.
    func close() {
        let (taking, putting) = state.withLock { state in
            state.isClosed = true
            state.batches = []
            return (state.taking.take(), state.putting.take())
        }
        taking?.resume(returning: nil)
        putting?.resume()
    }
}
