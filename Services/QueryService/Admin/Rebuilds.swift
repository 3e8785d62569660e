import CRDT
import Synchronization

/// The rebuilds of projections that have room for one build only: such a one is closed, deleted and opened
/// again. `states` has the lock.
final class Rebuilds: Sendable {
    /// The rebuilds of one database.
    struct State {
        /// 1, and one more for each rebuild since this process began.
        var generation = 1
        /// The log's head when the present rebuild began; nil while none runs.
        var target: Offset?
    }

    /// The databases to rebuild, each once.
    let wanted: AsyncStream<DatabaseID>
    private let continuation: AsyncStream<DatabaseID>.Continuation
    private let states = Mutex<[DatabaseID: State]>([:])

    init() { (wanted, continuation) = AsyncStream.makeStream(of: DatabaseID.self) }

    func state(of id: DatabaseID) -> State { states.withLock { $0[id] ?? State() } }

    /// Asks for a rebuild, unless one runs.
    func begin(_ id: DatabaseID, through head: Offset) {
        let isNew = states.withLock { states in
            guard states[id]?.target == nil else { return false }
            states[id, default: State()].target = head
            states[id]?.generation += 1
            return true
        }
        if isNew { continuation.yield(id) }
    }

    func end(_ id: DatabaseID) { states.withLock { $0[id]?.target = nil } }
}
