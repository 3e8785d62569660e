import Dispatch
import GRDB
import GRDBSQLite
import Synchronization

/// The connections that read a store. Each read has one of its own, so readers wait for nobody unless there
/// are more than `ReplicaLimits.readers`.
///
/// GRDB's pool is not used for them: it reads the schema's version before each read, in a transaction of
/// its own, and passes every connection through several queues, which together takes longer than reading a
/// document. SQLite itself compiles a statement again when its tables have changed.
///
/// A read leaves its snapshot open for the next one: beginning and ending a transaction takes longer than
/// reading a document, and cached collections and indexes are valid as long as the snapshot. A writer ends
/// all idle snapshots before it begins, so that none blocks SQLite's checkpoints and none is older than the
/// last commit.
///
/// Invariants: a connection is idle or belongs to one read; there are no more than `room` admits; none is
/// made once the store is closed. The snapshot of an idle connection shows the last commit; while a write
/// runs, idle connections have none.
final class Readers: Sendable {
    /// A connection and its open snapshot, if any.
    ///
    /// Unchecked: it belongs to one read, or is idle and guarded by `state`.
    private final class Reader: @unchecked Sendable {
        let queue: DatabaseQueue
        var snapshot: ReadTransaction?

        init(_ queue: DatabaseQueue) { self.queue = queue }

        func endSnapshot() {
            guard snapshot != nil else { return }
            queue.unsafeRead { end($0) }
        }

        func end(_ database: Database) {
            snapshot = nil
            if database.isInsideTransaction { try? RawStatement(cached: "ROLLBACK", database).run() }
        }
    }

    private struct State {
        var idle: [Reader] = []
        /// The number of writers, waiting ones included.
        var writers = 0
        /// Counts beginnings and ends of writes: a snapshot from before the last one is not left open.
        var turns = 0
        var isClosed = false
    }

    private let path: String
    private let configuration: Configuration
    private let cache: IndexCache
    private let state = Mutex(State())
    private let room = DispatchSemaphore(value: ReplicaLimits.readers)

    /// Readers of a file that a writer has created. `cache`: the store's cache of indexes.
    init(path: String, configuration: Configuration, cache: IndexCache) {
        self.path = path
        // A read ends inside an open transaction on purpose.
        var configuration = configuration
        configuration.allowsUnsafeTransactions = true
        self.configuration = configuration
        self.cache = cache
    }

    /// Runs a closure on a snapshot that shows all earlier commits. Throws `closed`.
    func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
        room.wait()
        defer { room.signal() }
        let (known, turns) = try take()
        let reader = try known ?? Reader(DatabaseQueue(path: path, configuration: configuration))
        return try read(on: reader, turns, body)
    }

    /// The same on a connection that is idle now; nil if there is none.
    func readNow<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result? {
        guard room.wait(timeout: .now()) == .success else { return nil }
        defer { room.signal() }
        let (known, turns) = try take()
        guard let known else { return nil }
        return try read(on: known, turns, body)
    }

    private func read<Result>(
        on reader: Reader, _ turns: Int, _ body: (ReadTransaction) throws -> Result
    ) throws -> Result {
        var isBack = false
        defer { if !isBack { state.withLock { $0.idle.append(reader) } } }
        return try reader.queue.unsafeRead { database in
            var isDone = false
            defer {
                if !isDone { reader.end(database) }
                isBack = giveBack(reader, turns)
                if !isBack { reader.end(database) }
            }
            let snapshot: ReadTransaction
            if let known = reader.snapshot {
                snapshot = known
            } else {
                try RawStatement(cached: "BEGIN", database).run()
                snapshot = ReadTransaction(database, cache)
                reader.snapshot = snapshot
            }
            let result = try body(snapshot)
            // After some errors SQLite has ended the transaction by itself. (GRDB's own check also checks
            // its queue.)
            isDone = sqlite3_get_autocommit(database.sqliteConnection) == 0
            return result
        }
    }

    /// Runs a closure that writes: no snapshot is left open meanwhile.
    func writing<Result>(_ body: () throws -> Result) rethrows -> Result {
        state.withLock { state in
            state.writers += 1
            state.turns += 1
            for reader in state.idle { reader.endSnapshot() }
        }
        defer {
            state.withLock { state in
                state.writers -= 1
                // A read that began meanwhile may have a snapshot from before the commit.
                state.turns += 1
            }
        }
        return try body()
    }

    /// Closes all connections once the running reads have ended.
    func close() {
        for _ in 0..<ReplicaLimits.readers { room.wait() }
        let idle = state.withLock { state in
            let idle = state.idle
            state.idle = []
            state.isClosed = true
            return idle
        }
        for reader in idle {
            reader.endSnapshot()
            try? reader.queue.close()
        }
        for _ in 0..<ReplicaLimits.readers { room.signal() }
    }

    private func take() throws -> (idle: Reader?, turns: Int) {
        try state.withLock { state in
            if state.isClosed { throw ReplicaError(.closed, "the store is closed") }
            return (state.idle.popLast(), state.turns)
        }
    }

    /// Gives a connection back with its snapshot; false if it must end the snapshot first, because a write
    /// may have begun since the read began.
    private func giveBack(_ reader: Reader, _ turns: Int) -> Bool {
        state.withLock { state in
            guard state.writers == 0, state.turns == turns else { return false }
            state.idle.append(reader)
            return true
        }
    }
}
