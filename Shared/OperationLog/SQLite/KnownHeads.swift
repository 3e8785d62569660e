import CRDT
import GRDB
import Synchronization
import WriteAhead

/// The heads of databases as of one state of the log's file, so that a reader need not look them up.
///
/// The heads count only while the file is in that state (`WriteAheadIndex`), so a commit of any process makes
/// them unknown. A look is remembered under the state from before it: one that a commit overtakes is
/// forgotten and never replaces what the commit has published.
///
/// `known` has the lock. The index is given up before the connections are closed.
final class KnownHeads: Sendable {
    private struct Known {
        var index: WriteAheadIndex?
        var state: WriteAheadIndex.State?
        var heads: [DatabaseID: LogPosition] = [:]

        /// Forgets what was known of another state.
        mutating func change(to state: WriteAheadIndex.State) {
            guard self.state != state else { return }
            heads.removeAll(keepingCapacity: true)
            self.state = state
        }
    }

    private let known: Mutex<Known>

    /// Knows nothing, ever: for a log that nobody asks at every request.
    init() { known = Mutex(Known()) }

    /// Knows nothing yet. It must be closed before these connections.
    init(of pool: DatabasePool) {
        let index = pool.writeWithoutTransaction { WriteAheadIndex(of: $0) }
        known = Mutex(Known(index: index))
    }

    /// The state of the file; nil if it cannot be told.
    var state: WriteAheadIndex.State? { known.withLock { $0.index?.state } }

    /// The head of a database; nil if it must be looked up.
    subscript(database: DatabaseID) -> LogPosition? {
        known.withLock { known -> LogPosition? in
            guard let index = known.index, known.state == index.state else { return nil }
            return known.heads[database]
        }
    }

    /// Remembers a head that was looked up after the file was in that state.
    func remember(_ head: LogPosition, of database: DatabaseID, since state: WriteAheadIndex.State?) {
        known.withLock { known in
            guard let state, state == known.index?.state else { return }
            known.change(to: state)
            known.heads[database] = head
        }
    }

    /// Publishes the heads of a commit of this process.
    /// - Parameter before: the state under the commit's write lock. Whatever was known then holds, unless
    ///   another process has committed since.
    func publish(_ grown: [GrownHead], after before: WriteAheadIndex.State?) {
        known.withLock { known in
            guard let before, let now = known.index?.state, now.commits == before.commits &+ 1 else { return }
            known.change(to: before)
            known.state = now
            for head in grown { known.heads[head.database] = head.position }
        }
    }

    /// Gives the index up: the connections are about to be closed.
    func close() { known.withLock { $0.index = nil } }
}
