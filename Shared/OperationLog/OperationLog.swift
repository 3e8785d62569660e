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
/// **Offsets** are contiguous from 1 per database, in commit order, also after a crash. A reader that has
/// read up to n has seen everything that will ever stand at or below n.
///
/// **Chain hash.** Every entry carries `ChainHash` up to and including itself, seeded by the log id. Equal
/// `LogPosition`s mean equal histories, so a position that the log lacks reveals a restored or failed-over
/// log. Reading checks every entry against its predecessor: an entry that does not chain is named
/// (`LOG-0401`, with its offset) and never served.
///
/// **Frontier.** Per database and actor the log keeps the last sequence appended, its timestamp and content
/// hash, advanced in the append's own transaction. Sequences of an actor are contiguous from 1. An
/// operation at or below the frontier is a duplicate, one beyond the next is a gap: neither is stored, and
/// either is an outcome, not an error. The frontier survives truncation and never retreats unless the log's
/// identity changes.
///
/// **Registration.** An actor belongs to the author key of its first appended operation, for ever. An
/// append of the same actor under another key is a conflict. Keys are compared by their bytes.
///
/// **Conditions.** The log keeps, per database, the last offset at which each document and collection was
/// touched. An append whose condition names something touched after the offset it was read at is a
/// conflict, and nothing of it is stored. The check runs under the same lock that assigns the offset, so of
/// two statements that read and write one document, one has to run again. A touch that the log can no
/// longer rule out counts as a touch.
///
/// **Durability.** `append` returns after the commit reached stable storage, for every outcome but a thrown
/// error. After a thrown `LOG-0303` it is unknown whether the operations are durable: the writer is
/// poisoned (`LOG-0304` from then on) until the log has recovered, and the frontier then tells. Reads
/// continue meanwhile. A driver whose server recovers by itself throws `LOG-0308` instead and stays usable:
/// there, an entry that can be read is durable. All other errors mean that nothing of the call was stored,
/// and that a later attempt may succeed.
///
/// **Bounds.** Appends that wait for a commit are bounded in count and bytes. Callers beyond that are
/// suspended in order of arrival, and refused (`LOG-0305`) beyond `LogLimits.waitingAppends`.
///
/// **Wake-ups** (`changes`) are hints, from this process and others. The truth is a read.
///
/// **Order of calls.** All methods may be called from any task at any time. Operations of one `append` keep
/// their order. Operations of two concurrent calls land in either order, never interleaved.
///
/// **Snapshots** are stored folds of the log, opaque here, written in chunks while appends continue. A
/// finished snapshot becomes visible as a whole and replaces the previous one. A damaged one is named
/// (`LOG-0402`) and never served to its end.
///
/// **Truncation** removes entries that a finished snapshot covers, in short transactions. Reading removed
/// entries is `LOG-0105`, whose offset is the snapshot's. Frontiers, registrations and the chain stay (the
/// remaining entries still verify). So do the chain hashes of removed entries after an offset named by the
/// caller, at most `LogLimits.keptHashes`, so that cursors do not depend on truncation; `position` is nil
/// for a hash that was dropped. A condition read before the truncation counts as breached.
///
/// **Leases.** See `ActorLease`. Times are measured by the storage's clock, so holders need none.
public protocol OperationLog: Sendable {
    /// Creates a database with an empty log and a fresh log id.
    /// - Returns: true if it was created, false if it existed.
    @discardableResult
    func createDatabase(_ database: DatabaseID) async throws -> Bool

    /// Removes a database with its entries, snapshots, frontiers and leases. From the first moment on the
    /// database is unknown (`LOG-0101`). Idempotent; ends a removal that was interrupted, of any database.
    /// Returns once nothing is left in the storage, as far as the driver can tell.
    /// - Returns: the offset of the last entry; nil when there is no such database.
    /// - Throws: `LOG-0302` when something is left for now; call it again.
    @discardableResult
    func eraseDatabase(_ database: DatabaseID) async throws -> Offset?

    /// Frees the storage of what was removed by truncation, as far as the driver can: no copy of it is left
    /// in the driver's own files.
    /// - Throws: `LOG-0302` when something is left for now; call it again.
    func scrub() async throws

    /// The ids of all databases, oldest first.
    func databases() async throws -> [DatabaseID]

    /// Returns whether the database exists; false also for an invalid id.
    func databaseExists(_ database: DatabaseID) async throws -> Bool

    /// Appends operations, and returns once they are durable.
    /// - Returns: one outcome per request, in order. A refused operation makes the same actor's later ones in
    ///   the call gaps, whatever their numbers: they may rest on it. It does not hold back other actors'.
    /// - Throws: `OperationLogError`, or `CancellationError` if the task was cancelled before its
    ///   operations were admitted to the queue (nothing is stored then).
    func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]

    /// The same with a rider, which the driver may commit along with the operations if all of them are
    /// appended.
    func append(
        _ requests: [AppendRequest], to database: DatabaseID, with rider: (any AppendRider)?
    ) async throws -> [AppendOutcome]

    /// The same for a thread of the caller's that may block, and is no task's: a driver that can commits on
    /// it, which saves waking a thread for the commit and another one for its outcome.
    func appendBlocking(_ requests: [AppendRequest], to database: DatabaseID) throws -> [AppendOutcome]

    /// The frontiers of the given actors, without those that are not registered: an absent actor stands at
    /// sequence 0.
    func frontier(of actors: [ActorID], in database: DatabaseID) async throws -> [ActorID: FrontierEntry]

    /// The last position; offset 0 for an empty log.
    func head(of database: DatabaseID) async throws -> LogPosition

    /// The last position if it is known without waiting, exactly as `head` would tell it; nil if it must be
    /// looked up.
    func headNow(of database: DatabaseID) -> LogPosition?

    /// The position at an offset, to check a cursor against the log: a valid cursor equals it.
    /// - Returns: nil if the log does not reach that far (it was restored) or no longer keeps the hash
    ///   there.
    func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition?

    /// Entries after an offset in order, verified against the chain.
    /// - Returns: at least one entry if there is one, however large; empty at the head.
    /// - Throws: `LOG-0104` for an offset beyond the head, `LOG-0401` at the first entry that does not
    ///   verify (entries before it can still be read with a smaller limit), `LOG-0105` for an offset before
    ///   the truncation.
    func read(_ database: DatabaseID, after offset: Offset, limit: ReadLimit) async throws -> [LogEntry]

    /// Wake-ups for appends to a database by any process, coalesced: one may stand for many, and one may
    /// find nothing new. The first comes at once, so `for await _ in changes { read until empty }` misses
    /// nothing. Some carry the appended entries, which then need no read (`LogChange`). The stream ends
    /// when the log is closed; an unknown database never wakes a second time.
    func changes(in database: DatabaseID) -> AsyncStream<LogChange>

    /// The place through which entries were removed; offset 0 while none were.
    func truncation(of database: DatabaseID) async throws -> LogPosition

    /// Removes the entries up to an offset. Hashes stay for cursors at offsets after `floor`.
    /// - Throws: `LOG-0106` unless a finished snapshot stands at or after that offset.
    func truncate(_ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset)
        async throws

    /// The finished snapshot; nil while there is none.
    func snapshot(of database: DatabaseID) async throws -> LogSnapshot?

    /// Begins a snapshot at a position of this log, and drops older drafts.
    /// - Throws: `LOG-0104` for a position that the log does not have.
    func beginSnapshot(of database: DatabaseID, at position: LogPosition) async throws -> SnapshotDraft

    /// Adds the next chunk, at most `LogLimits.chunkBytes`. Only one task may write a draft.
    /// - Throws: `LOG-0106` when the draft was dropped meanwhile.
    func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws

    /// Makes the draft the database's snapshot, durably, and drops the previous one.
    /// - Throws: `LOG-0106` when the draft was dropped meanwhile, or the present snapshot has a greater
    ///   offset.
    func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot

    /// One verified chunk of a finished snapshot, or of one that its writer reads back. (See
    /// `readSnapshot`.)
    /// - Throws: `LOG-0106` when a newer snapshot has replaced it, `LOG-0402` when it is damaged.
    func chunk(_ index: Int, of snapshot: LogSnapshot, in database: DatabaseID) async throws -> [UInt8]

    /// Leases a free slot out of the purpose's `slots`.
    /// - Returns: nil while all of them are leased.
    func lease(_ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID) async throws
        -> ActorLease?

    /// Extends a lease; false when it was lost.
    func renew(_ lease: ActorLease, for duration: Duration, in database: DatabaseID) async throws -> Bool

    /// Gives a lease back; a retired actor is not leased out again. A no-op for a lost lease.
    func release(_ lease: ActorLease, retiring: Bool, in database: DatabaseID) async throws

    /// Removes actors from every lease: a present holder loses its lease, and none of the actors is leased
    /// out again. (A store must not rewrite a reaped document with an actor that the document's vector
    /// held.)
    func retire(_ actors: [ActorID], in database: DatabaseID) async throws

    /// Counts how often the storage may have been restored under an open log: a server that was restored,
    /// or whose standby took over, has ended all connections. Findings and appends of an earlier term may
    /// no longer hold; an append can name the term it depends on (`AppendRequest.term`). Cheap, never
    /// waits. A log stored in its own process's file stays in one term.
    var term: UInt64 { get }

    /// The writer's queue and health, for health checks and metrics. Cheap, never waits.
    var status: LogStatus { get }

    /// Checks that the storage at the log's address is the one that is open here.
    /// - Throws: `LOG-0309` if it is gone, or another one is in its place.
    func requireStorage() async throws

    /// Tries whether a storage that was full takes changes again; leaves nothing behind.
    /// - Throws: `LOG-0301` while it does not.
    func requireRoom() async throws

    /// Commits the admitted appends, refuses the rest with `LOG-0306`, and releases every resource.
    /// Idempotent.
    func close() async
}

extension OperationLog {
    /// The rider stays behind.
    public func append(
        _ requests: [AppendRequest], to database: DatabaseID, with rider: (any AppendRider)?
    ) async throws -> [AppendOutcome] { try await append(requests, to: database) }

    /// Nothing to try: the next append tells.
    public func requireRoom() async throws {}

    /// Not known: the storage must be asked.
    public func headNow(of database: DatabaseID) -> LogPosition? { nil }

    /// Entries after an offset, within `ReadLimit.standard`.
    public func read(_ database: DatabaseID, after offset: Offset) async throws -> [LogEntry] {
        try await read(database, after: offset, limit: .standard)
    }
}
