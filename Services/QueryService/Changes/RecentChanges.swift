import CRDT
import Exchange
import Machine
import Replica

/// The latest operations of one database with the states around them, for its followers: observers and
/// readers of changes.
///
/// Kept only while somebody follows, and for `Limits.recentTime` after that; bounded in bytes, so that a slow
/// follower costs nobody memory: it finds its place gone, and reads the log again. Offsets are contiguous:
/// `operations` are those after `start` through `end`. `state` guards all and is never held across a wait.
final class RecentChanges: Sendable {
    enum Found: Sendable {
        /// The operations that follow, some megabytes at most; empty at the end.
        case operations([FoldedOperation])
        /// They are not in memory any more.
        case gone
    }

    private struct State: Sendable {
        var operations: [FoldedOperation] = []
        var bytes = 0
        var start: Offset = 0
        var end: Offset = 0
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
    var end: Offset { state.read { $0.end } }

    /// The fold begins at this offset.
    func begin(at offset: Offset) {
        state.change { state in
            (state.operations, state.bytes) = ([], 0)
            (state.start, state.end) = (offset, offset)
        }
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
        state.change { state in
            (state.operations, state.bytes) = ([], 0)
            state.start = state.end
        }
    }

    /// Adds operations that were folded, in the log's order.
    func append(_ folded: [FoldedOperation]) {
        guard let first = folded.first, let last = folded.last else { return }
        state.change { state in
            let isKept = state.followers > 0 || state.keptUntil.map { $0 > .now } ?? false
            if isKept, first.position.offset == state.end.next {
                state.operations += folded
                state.bytes += folded.reduce(0) { $0 + Self.bytes(of: $1) }
                Self.trim(&state)
            } else {
                (state.operations, state.bytes) = ([], 0)
                state.start = last.position.offset
            }
            state.end = last.position.offset
        }
    }

    /// Drops the oldest quarter: in steps, since the rest moves up.
    private static func trim(_ state: inout State) {
        guard state.bytes > Limits.recentBytes else { return }
        var dropped = 0
        while state.bytes > Limits.recentBytes / 4 * 3, dropped < state.operations.count {
            state.bytes -= bytes(of: state.operations[dropped])
            dropped += 1
        }
        state.operations.removeFirst(dropped)
        state.start = state.start.advanced(by: dropped)
    }

    /// The memory of an operation: its states, and some fixed cost.
    static func bytes(of operation: FoldedOperation) -> Int {
        operation.changes.reduce(256) { $0 + ($1.before?.count ?? 0) + $1.after.count + 128 }
    }

    /// The operations after an offset.
    func read(after offset: Offset) -> Found {
        state.read { state in
            guard offset < state.end else { return .operations([]) }
            guard offset >= state.start else { return .gone }
            var bytes = 0
            let from = state.start.distance(to: offset)
            var to = from
            while to < state.operations.count, bytes < Limits.batchBytes {
                bytes += Self.bytes(of: state.operations[to])
                to += 1
            }
            return .operations(Array(state.operations[from..<to]))
        }
    }

    /// Returns when there is an operation after an offset, after `wake`, when the followers must end, when it
    /// is closed, or when the task is cancelled.
    func wait(beyond offset: Offset) async {
        let (wakes, generation) = state.read { ($0.wakes, $0.generation) }
        await state.wait(within: nil) { state in
            state.end > offset || state.isClosed || state.generation != generation || state.wakes != wakes
        }
    }

    /// Wakes every follower, so that it looks at its clock, its credential and its client.
    func wake() {
        state.change { state in
            if state.followers == 0, state.keptUntil.map({ $0 <= .now }) ?? false {
                state.keptUntil = nil
                (state.operations, state.bytes) = ([], 0)
                state.start = state.end
            }
            state.wakes += 1
        }
    }

    /// Ends every follower; with `isFinal` also those to come.
    func endFollowers(isFinal: Bool) {
        state.change { state in
            state.isClosed = isFinal
            state.generation += 1
            (state.operations, state.bytes) = ([], 0)
            state.start = state.end
        }
    }
}
