import Dispatch
import GRDB
import Synchronization

/// The connections that read a store. Each read has one of its own, so that readers wait for nobody while
/// there are no more than `ReplicaLimits.readers`.
///
/// Not those of GRDB's pool: it asks for the schema's version before each read, in a transaction of its own,
/// and takes every connection through several queues, which together takes longer than reading a document. A
/// statement whose tables have changed is compiled again by SQLite itself.
///
/// Invariants: a connection is idle or belongs to one read; no more exist than `room` lets in; none is made
/// once the store is closed.
final class Readers: Sendable {
    private struct State {
        var idle: [DatabaseQueue] = []
        var isClosed = false
    }

    private let path: String
    private let configuration: Configuration
    private let state = Mutex(State())
    private let room = DispatchSemaphore(value: ReplicaLimits.readers)

    /// Readers of a file that a writer has made.
    init(path: String, configuration: Configuration) {
        self.path = path
        self.configuration = configuration
    }

    /// Runs a closure on a connection, which is in no transaction before and after it. Throws `closed`.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        room.wait()
        defer { room.signal() }
        let reader = try take()
        defer { giveBack(reader) }
        return try reader.unsafeRead(body)
    }

    /// Closes all connections, once the reads under way have ended.
    func close() {
        for _ in 0..<ReplicaLimits.readers { room.wait() }
        let idle = state.withLock { state in
            defer { state = State(isClosed: true) }
            return state.idle
        }
        for reader in idle { try? reader.close() }
        for _ in 0..<ReplicaLimits.readers { room.signal() }
    }

    private func take() throws -> DatabaseQueue {
        let known = try state.withLock { state in
            if state.isClosed { throw ReplicaError(.closed, "the store is closed") }
            return state.idle.popLast()
        }
        return try known ?? DatabaseQueue(path: path, configuration: configuration)
    }

    private func giveBack(_ reader: DatabaseQueue) { state.withLock { $0.idle.append(reader) } }
}
