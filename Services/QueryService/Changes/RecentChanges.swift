import CRDT
import Exchange
import Machine
import Replica

/// The latest operations of one database with the states around them, for its followers: observers and
/// readers of changes.
///
/// Kept only while somebody follows, and for `Limits.recentTime` after that. `state` guards all and is never
/// held across a wait.
final class RecentChanges: Sendable {
    enum Found: Sendable {
        /// The operations that follow, some megabytes at most; empty at the end.
        case operations([FoldedOperation])
        /// They are not in memory any more.
        case gone
    }

    private struct State: Sendable {
        var tail = CommitTail(after: 0, .init(bytes: Limits.recentBytes))
        var followers = 0
        /// After the last follower has left.
        var keptUntil: ContinuousClock.Instant?
        /// Grows with each `wake`.
        var wakes: UInt64 = 0
        /// Grows when all present followers must end.
        var generation = 0
        var isClosed = false
    }

    private let state = Monitor(State())

    /// A follower for as long as it lives.
    final class Follower: Sendable {
        private let recent: RecentChanges
        private let generation: Int
        fileprivate init(_ recent: RecentChanges, _ generation: Int) {
            (self.recent, self.generation) = (recent, generation)
        }
        deinit { recent.leave() }
        /// True once the fold that it follows has ended.
        var isOver: Bool { recent.state.read { $0.isClosed || $0.generation != generation } }
    }

    /// The offset of the last operation.
    var end: Offset { state.read { $0.tail.end } }

    /// The fold begins at this offset.
    func begin(at offset: Offset) {
        state.change { $0.tail.restart(after: offset) }
    }

    /// Registers a follower: from now on operations are kept.
    func follow() -> Follower {
        let generation = state.change { state in
            state.followers += 1
            state.keptUntil = nil
            return state.generation
        }
        return Follower(self, generation)
    }

    private func leave() {
        state.change { state in
            state.followers -= 1
            if state.followers == 0 { state.keptUntil = .now + Limits.recentTime }
        }
    }

    /// Drops the operations that are kept: an operator has erased something in them.
    func forget() {
        state.change { $0.tail.forget() }
    }

    /// Adds operations that were folded, in the log's order.
    func append(_ folded: [FoldedOperation]) {
        guard let last = folded.last else { return }
        state.change { state in
            if state.followers > 0 || state.keptUntil.map({ $0 > .now }) ?? false {
                state.tail.append(folded.map { CommitTail.Commit($0) })
            } else {
                state.tail.restart(after: last.position.offset)
            }
        }
    }

    /// The operations after an offset.
    func read(after offset: Offset) -> Found {
        state.read { state in
            guard let batch = state.tail.batch(after: offset, bytes: Limits.batchBytes) else { return .gone }
            return .operations(batch.operations)
        }
    }

    /// Returns when there is an operation after an offset, after `wake`, when the followers must end, when it
    /// is closed, or when the task is cancelled.
    func wait(beyond offset: Offset) async {
        let (wakes, generation) = state.read { ($0.wakes, $0.generation) }
        await state.wait(within: nil) { state in
            state.tail.end > offset || state.isClosed || state.generation != generation
                || state.wakes != wakes
        }
    }

    /// Wakes every follower, so that it looks at its clock, its credential and its client.
    func wake() {
        state.change { state in
            if state.followers == 0, state.keptUntil.map({ $0 <= .now }) ?? false {
                state.keptUntil = nil
                state.tail.forget()
            }
            state.wakes += 1
        }
    }

    /// Ends every follower; with `isFinal` also those to come.
    func endFollowers(isFinal: Bool) {
        state.change { state in
            state.isClosed = isFinal
            state.generation += 1
            state.tail.forget()
        }
    }
}
