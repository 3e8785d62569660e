import CRDT
import DQL

/// A store that holds a database's documents and follows a log: a `PeerReplica`, whose own writes become
/// operations, or a `Materialization`, the fold of the shared log. Here is what both can do.
public protocol Replica: Sendable {
    /// The documents.
    var store: DocumentStore { get }
    /// Closes the store and frees its directory; later calls throw `closed`. Waits for running accesses.
    func close() throws
}

extension Replica {
    /// The store's directory.
    public var directory: String { store.directory }

    /// The number of the last commit; in a materialization the offset `foldedThrough`.
    public var head: UInt64 { store.state.head }

    /// Runs a closure on a consistent snapshot. Never waits for a writer.
    public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
        try store.read(body)
    }

    /// The same for a closure that takes a moment, on a thread that must not wait: nil if every connection is
    /// taken.
    public func readNow<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result? {
        try store.readNow(body)
    }

    /// Calls a closure whenever a read or a write, of whatever kind, finds the store damaged. It may be
    /// called on any thread and often, and must not call the store.
    public func whenDamaged(_ body: @escaping @Sendable (String) -> Void) { store.whenDamaged(body) }

    /// Runs CREATE INDEX or DROP INDEX, durable when this returns; an index is complete then.
    /// `interruption` is checked between the steps of building. An index that is not completed, for that or
    /// another reason, is dropped. Throws `indexExists`, `unknownIndex`, `tooManyIndexes`, `cancelled`
    /// (also when the index was dropped meanwhile), `timeout`.
    public func change(
        _ change: IndexChange, interruption: (@Sendable () -> Interruption?)? = nil
    ) throws {
        try store.change(change, interruption: interruption)
    }

    /// The indexes of all collections, for `system:indexes`.
    public func indexes() throws -> [IndexDescription] { try store.indexes() }

    /// The faults of the indexes: missing entries, superfluous ones, and ones that differ from their
    /// document; for an index being built only superfluous ones. Empty if all is well. Reads everything:
    /// for tests, fuzzers and simulations.
    public func indexFaults() throws -> [String] { try store.indexFaults() }

    /// Rewrites the file without its free pages, in which removed content may stand, and empties the
    /// write-ahead log. Takes a second per 100 MB or so; writes wait meanwhile, reads do not.
    /// - Throws: a storage error while readers keep the write-ahead log in use: try again.
    public func compact() throws { try store.compact() }
}
