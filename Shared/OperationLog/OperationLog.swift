import CRDT

/// The operation log: the only truth of the server. Every materialization and projection is a fold of it.
///
/// ## Contract (every driver keeps it; `Tests/OperationLogTests/Conformance` checks it)
///
/// **Databases.** A log holds many databases, each a log of its own with its own `LogID`, offsets and
/// frontier. A database id is 1 to 128 ASCII letters, digits, `.`, `_` or `-` and starts with a letter or
/// digit, so it may name a folder. Only `createDatabase` makes one; everything else refuses an unknown one
/// with `LOG-0101`.
///
/// **Offsets** are contiguous from 1 per database, in commit order. Whoever has read up to n has seen
/// everything that will ever stand at or below n. There are no holes, also after a crash.
///
/// **Chain hash.** Every entry carries `ChainHash` up to and including itself, seeded by the log id. Equal
/// `LogPosition`s mean equal histories; a restored or failed-over log is noticed by whoever holds a
/// position that it does not have. Reading checks every entry against its predecessor: an entry that does
/// not chain is named (`LOG-0401`, with its offset) and never served.
///
/// **Frontier.** Per database and actor the log keeps the last sequence appended, its timestamp and content
/// hash, advanced in the append's own transaction. Sequences of an actor are contiguous from 1. An
/// operation at or below the frontier is a duplicate, one beyond the next a gap: neither is stored, and
/// either is an outcome, no error. The frontier never retreats except with the log's identity, and survives
/// truncation.
///
/// **Registration.** An actor belongs to the author key of its first appended operation, for ever. An
/// append of the same actor under another key is a conflict. Keys are compared by their bytes.
///
/// **Conditions.** The log keeps, per database, the last offset at which each document and collection was
/// touched. An append under a condition is a conflict, and nothing of it is stored, if something that the
/// condition names was touched after the offset it was read at; this is decided under the same lock as the
/// offset, so that of two statements that read one document and write it, one runs again. What was appended
/// before the index existed counts as touched.
///
/// **Durability.** `append` returns after the commit reached stable storage, for every outcome but a thrown
/// error. A thrown `LOG-0303` leaves it open whether the operations became durable: the writer is poisoned
/// then (`LOG-0304` from there on) until the log is opened again, whose frontier tells. Reads go on
/// meanwhile. A driver on a server that recovers by itself throws `LOG-0308` instead, and goes on: there,
/// what the log shows is durable. All other errors mean that nothing of the call was stored, and that a
/// later attempt may succeed.
///
/// **Bounds.** Appends that wait for a commit are bounded in count and bytes; callers beyond that are
/// suspended in order of arrival, and refused (`LOG-0305`) beyond `LogLimits.waitingAppends`.
///
/// **Wake-ups** (`changes`) are hints, from this process and others. The truth is a read.
///
/// **Order of calls.** All methods may be called from any task at any time. Operations of one `append` keep
/// their order. Operations of two concurrent calls land in either order, never interleaved.
///
/// ## What this contract will grow by
/// - *Snapshots and truncation*: `read` after an offset below the first kept one throws a new code that
///   names the snapshot to start from; `position` returns nil there. The chain hash at the truncation stays
///   in the database's row, so that the rest still verifies.
/// - *Refusal* (rule 20): a request without bytes that only consumes the sequence; *reaping* (rule 15): an
///   operation like any other to this module, whose bytes say so.
/// - *Leases*: services borrow actors from a small pool per database, kept beside the registrations.
public protocol OperationLog: Sendable {
    /// Creates a database with an empty log and a fresh log id.
    /// - Returns: true if it was created, false if it existed.
    @discardableResult
    func createDatabase(_ database: String) async throws -> Bool

    /// The ids of all databases, oldest first.
    func databases() async throws -> [String]

    /// Whether there is such a database; false also for an id that none can have.
    func databaseExists(_ database: String) async throws -> Bool

    /// Appends operations, and returns once they are durable.
    /// - Returns: one outcome per request, in order. A refused operation makes the same actor's later ones in
    ///   the call gaps, whatever their numbers: they may rest on it. It does not hold back other actors'.
    /// - Throws: `OperationLogError`, or `CancellationError` if the task was cancelled before its
    ///   operations were admitted to the queue (nothing is stored then).
    func append(_ requests: [AppendRequest], to database: String) async throws -> [AppendOutcome]

    /// The frontiers of those of the actors that are registered; an absent actor stands at sequence 0.
    func frontier(of actors: [ActorID], in database: String) async throws -> [ActorID: FrontierEntry]

    /// The last position; offset 0 for an empty log.
    func head(of database: String) async throws -> LogPosition

    /// The position at an offset, to check a cursor against the log itself: a good one is equal.
    /// - Returns: nil if the log does not reach that far (a restored log).
    func position(at offset: UInt64, in database: String) async throws -> LogPosition?

    /// Entries after an offset in order, verified against the chain.
    /// - Returns: at least one entry if there is one, however large; empty at the head.
    /// - Throws: `LOG-0104` for an offset beyond the head, `LOG-0401` at the first entry that does not verify
    ///   (entries before it can still be read by asking for fewer).
    func read(_ database: String, after offset: UInt64, limit: ReadLimit) async throws -> [LogEntry]

    /// Wake-ups for appends to a database by any process, coalesced: one may stand for many, and one may find
    /// nothing new. The first comes at once, so `for await _ in changes { read until empty }` misses nothing.
    /// The stream ends when the log is closed; an unknown database never wakes a second time.
    func changes(in database: String) -> AsyncStream<Void>

    /// How the writer stands, for health and metrics. Cheap, never waits.
    var status: LogStatus { get }

    /// Commits what was admitted, refuses the rest with `LOG-0306`, and releases every resource. Idempotent.
    func close() async
}

extension OperationLog {
    /// Entries after an offset, within `ReadLimit.standard`.
    public func read(_ database: String, after offset: UInt64) async throws -> [LogEntry] {
        try await read(database, after: offset, limit: .standard)
    }
}
