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
/// offset, so that of two statements that read one document and write it, one runs again. What a log
/// cannot tell any more counts as touched.
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
/// **Snapshots** are stored folds of the log, opaque here, written in chunks while appends go on. One becomes
/// visible, whole, when it is finished, and takes the place of the one before. A damaged one is named
/// (`LOG-0402`) and never served to its end.
///
/// **Truncation** removes entries that a finished snapshot stands for, in short transactions. Reading behind
/// it is `LOG-0105`, whose offset is the snapshot's. What stays: frontiers and registrations, the chain (the
/// rest still verifies), and the chain hashes of removed entries behind an offset that the caller names, at
/// most `LogLimits.keptHashes`, so that cursors do not depend on truncation; `position` is nil for those that
/// have gone. A condition that was read before the truncation counts as breached.
///
/// **Leases.** See `ActorLease`. Times are measured by the storage's clock, so holders need none.
public protocol OperationLog: Sendable {
    /// Creates a database with an empty log and a fresh log id.
    /// - Returns: true if it was created, false if it existed.
    @discardableResult
    func createDatabase(_ database: DatabaseID) async throws -> Bool

    /// The ids of all databases, oldest first.
    func databases() async throws -> [DatabaseID]

    /// Whether there is such a database; false also for an id that none can have.
    func databaseExists(_ database: DatabaseID) async throws -> Bool

    /// Appends operations, and returns once they are durable.
    /// - Returns: one outcome per request, in order. A refused operation makes the same actor's later ones in
    ///   the call gaps, whatever their numbers: they may rest on it. It does not hold back other actors'.
    /// - Throws: `OperationLogError`, or `CancellationError` if the task was cancelled before its
    ///   operations were admitted to the queue (nothing is stored then).
    func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]

    /// The frontiers of those of the actors that are registered; an absent actor stands at sequence 0.
    func frontier(of actors: [ActorID], in database: DatabaseID) async throws -> [ActorID: FrontierEntry]

    /// The last position; offset 0 for an empty log.
    func head(of database: DatabaseID) async throws -> LogPosition

    /// The position at an offset, to check a cursor against the log itself: a good one is equal.
    /// - Returns: nil if the log does not reach that far (a restored log), or does not know any more.
    func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition?

    /// Entries after an offset in order, verified against the chain.
    /// - Returns: at least one entry if there is one, however large; empty at the head.
    /// - Throws: `LOG-0104` for an offset beyond the head, `LOG-0401` at the first entry that does not verify
    ///   (entries before it can still be read by asking for fewer), `LOG-0105` for an offset behind the
    ///   truncation.
    func read(_ database: DatabaseID, after offset: Offset, limit: ReadLimit) async throws -> [LogEntry]

    /// Wake-ups for appends to a database by any process, coalesced: one may stand for many, and one may find
    /// nothing new. The first comes at once, so `for await _ in changes { read until empty }` misses nothing.
    /// Some bring what was appended along, which is then as good as read (`LogChange`).
    /// The stream ends when the log is closed; an unknown database never wakes a second time.
    func changes(in database: DatabaseID) -> AsyncStream<LogChange>

    /// The place through which entries were removed; offset 0 while none were.
    func truncation(of database: DatabaseID) async throws -> LogPosition

    /// Removes the entries up to an offset. Hashes stay for cursors at offsets after `floor`.
    /// - Throws: `LOG-0106` unless a finished snapshot stands at that offset or behind it.
    func truncate(_ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset)
        async throws

    /// The finished snapshot; nil while there is none.
    func snapshot(of database: DatabaseID) async throws -> LogSnapshot?

    /// Begins a snapshot of a place that the log has. Older drafts are dropped.
    /// - Throws: `LOG-0104` for a place that the log does not have.
    func beginSnapshot(of database: DatabaseID, at position: LogPosition) async throws -> SnapshotDraft

    /// Adds the next chunk, at most `LogLimits.chunkBytes`. One task writes a draft.
    /// - Throws: `LOG-0106` when the draft was dropped meanwhile.
    func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws

    /// Makes the draft the database's snapshot, durably, and drops the one before.
    /// - Throws: `LOG-0106` when the draft was dropped meanwhile, or the one before stands further on.
    func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot

    /// One chunk of a finished snapshot, or of one that its writer reads back, verified by itself. (See
    /// `readSnapshot`.)
    /// - Throws: `LOG-0106` when a newer snapshot has taken its place, `LOG-0402` when it is damaged.
    func chunk(_ index: Int, of snapshot: LogSnapshot, in database: DatabaseID) async throws -> [UInt8]

    /// Takes a free slot of a purpose, which has `slots` of them.
    /// - Returns: nil while others hold all of them.
    func lease(_ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID) async throws
        -> ActorLease?

    /// Holds a lease for longer; false when it was lost.
    func renew(_ lease: ActorLease, for duration: Duration, in database: DatabaseID) async throws -> Bool

    /// Gives a lease back; a retired actor is not given out again. Does nothing for a lost one.
    func release(_ lease: ActorLease, retiring: Bool, in database: DatabaseID) async throws

    /// Takes actors out of every lease: whoever holds one loses it, and it is not given out again. (A store
    /// must not write a reaped document again with an actor that its vector held.)
    func retire(_ actors: [ActorID], in database: DatabaseID) async throws

    /// Counts how often the storage may have been put back under an open log: a server that was restored, or
    /// whose standby took over, has ended all connections. What was found out or appended in a term that is
    /// over need not hold any more; an append can depend on its term (`AppendRequest.term`). Cheap, never
    /// waits; a log whose storage is its own process's stays in one.
    var term: UInt64 { get }

    /// How the writer stands, for health and metrics. Cheap, never waits.
    var status: LogStatus { get }

    /// Commits what was admitted, refuses the rest with `LOG-0306`, and releases every resource. Idempotent.
    func close() async
}

extension OperationLog {
    /// One for ever.
    public var term: UInt64 { 0 }

    /// Entries after an offset, within `ReadLimit.standard`.
    public func read(_ database: DatabaseID, after offset: Offset) async throws -> [LogEntry] {
        try await read(database, after: offset, limit: .standard)
    }
}
