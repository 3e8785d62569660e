import Machine

/// Batches that are folded and not published yet. The fold waits while a few of them do, so a fan-out that is
/// slower than the log grows costs time and no memory.
///
/// Invariants: batches leave in the order in which they came; one side puts, one takes. `state` guards all.
final class FoldQueue<Batch: Sendable>: Sendable {
    private struct State: Sendable {
        var batches: [Batch] = []
        var isClosed = false
    }

    private let state = Monitor(State())

    /// How many batches wait.
    var count: Int { state.read { $0.batches.count } }

    /// Puts a batch behind the others; returns when there is room for the next one, or nobody takes any more.
    func put(_ batch: Batch) async {
        state.change { if !$0.isClosed { $0.batches.append(batch) } }
        await state.wait { $0.isClosed || $0.batches.count < Limits.unpublishedFolds }
    }

    /// The next batch, as soon as there is one; nil when it is closed.
    func next() async -> Batch? {
        // An array, because nil means that there is nothing yet: a nested optional would be either.
        await state.take { state -> [Batch]? in
            if state.isClosed { return [] }
            guard !state.batches.isEmpty else { return nil }
            return [state.batches.removeFirst()]
        }.first
    }

    /// Lets both sides go; what waits is dropped.
    func close() { state.change { ($0.isClosed, $0.batches) = (true, []) } }
}
