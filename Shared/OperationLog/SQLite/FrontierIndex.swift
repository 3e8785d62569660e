import CRDT
import GRDB
import Synchronization

/// The actors' frontiers in each database, as far as this process knows them. They decide over appends.
///
/// Updates of the table `actors` are deferred. A group writes the row of a new actor; its changes to other
/// actors are in its operations, and are written to the table now and then, once per actor
/// (`KnownFrontier`).
///
/// Held in memory. Anything unknown (at the start, after another process's appends, after a failure) is
/// read from the operations after `databases.settled`. All databases together are bounded; the least
/// recently appended one is dropped first. A group takes a database's entry out and puts it back after its
/// commit, so a rollback forgets it.
final class FrontierIndex: Sendable {
    private struct State {
        var databases: [Int64: (frontier: KnownFrontier, turn: UInt64)] = [:]
        /// Actors of all databases.
        var count = 0
        /// Counted in groups.
        var turn: UInt64 = 0
    }

    private let state = Mutex(State())

    /// The known frontier of a database, unless a group has taken it.
    func known(_ database: Int64) -> KnownFrontier? { state.withLock { $0.databases[database]?.frontier } }

    /// Takes out the known frontier of a database.
    func take(_ database: Int64) -> KnownFrontier? {
        state.withLock { state in
            let known = state.databases.removeValue(forKey: database)?.frontier
            state.count -= known?.count ?? 0
            return known
        }
    }

    /// Puts it back for the next group, unless it has become too large.
    func keep(_ frontier: KnownFrontier, of database: Int64) {
        guard frontier.count <= LogLimits.knownActors else { return }
        state.withLock { state in
            state.turn += 1
            state.databases[database] = (frontier, state.turn)
            state.count += frontier.count
            while state.count > LogLimits.knownActorsInAll,
                let oldest = state.databases.min(by: { $0.value.turn < $1.value.turn })
            {
                state.count -= oldest.value.frontier.count
                state.databases[oldest.key] = nil
            }
        }
    }
}

/// The frontiers of one database's actors, at one head of its log.
///
/// Invariants, once it has been read: it knows every actor with operations after the head's `flushed`, so
/// the table has any actor missing here; and it is never older than the table.
struct KnownFrontier {
    /// The state that decides over an actor's next operation.
    struct Registration {
        let key: String
        var frontier: FrontierEntry
    }

    /// The head up to which it is current.
    private(set) var offset: Offset
    /// The chain hash there.
    private(set) var hash: UInt64
    private var actors: [ActorID: Registration] = [:]
    /// Actors whose table row is outdated.
    private var unflushed: Set<ActorID> = []
    /// Bytes of the operations after `flushed`.
    private var unflushedBytes = 0

    /// An empty frontier where everything is flushed up to this place.
    private init(offset: Offset, hash: UInt64) {
        self.offset = offset
        self.hash = hash
    }

    var count: Int { actors.count }

    /// The frontiers at a head, from the ones known before and the entries appended since.
    /// - Throws: `LOG-0401` when an entry in between is missing, does not verify or cannot be read.
    static func reading(
        _ db: Database, _ database: DatabaseID, _ head: LogHead, since known: consuming KnownFrontier?
    ) throws -> KnownFrontier {
        do {
            return try readingPages(db, database, head, since: known)
        } catch let error as DatabaseError where isDamage(error) {
            let message = "a page after the flushed entries is damaged: \(describe(error))"
            throw OperationLogError(.corrupt, message, database: database, offset: head.flushed)
        }
    }

    private static func readingPages(
        _ db: Database, _ database: DatabaseID, _ head: LogHead, since known: consuming KnownFrontier?
    ) throws -> KnownFrontier {
        if let known, known.offset == head.offset, known.hash == head.hash { return known }
        var frontier: KnownFrontier
        if let known, known.offset >= head.flushed, known.offset < head.offset,
            try LogReader.chainHash(db, at: known.offset, of: head) == known.hash
        {
            frontier = known
        } else {
            guard try LogReader.chainHash(db, at: head.flushed, of: head) == head.flushedHash else {
                let message = "the last entry that the table of actors covers is missing or another one"
                throw OperationLogError(.corrupt, message, database: database, offset: head.flushed)
            }
            frontier = KnownFrontier(offset: head.flushed, hash: head.flushedHash)
        }
        while frontier.offset < head.offset {
            let entries = try LogReader.entries(
                db, database: database, head: head, after: frontier.offset, limit: ReadLimit())
            for entry in entries { try frontier.take(entry, db, database, head) }
        }
        return frontier
    }

    private mutating func take(
        _ entry: LogEntry, _ db: Database, _ database: DatabaseID, _ head: LogHead
    ) throws {
        guard let key = try registration(of: entry.actor, db, head)?.key else {
            throw OperationLogError(
                .corrupt, "the entry's actor is not registered", database: database,
                offset: entry.offset)
        }
        advance(
            entry.actor,
            to: Registration(
                key: key,
                frontier: FrontierEntry(
                    sequence: entry.sequence, timestamp: entry.timestamp,
                    hash: ChainHash.content(entry.bytes), authorKey: key)))
        appended(bytes: entry.bytes.count, through: entry.offset, hash: entry.hash)
    }

    /// An actor's key and frontier; nil if it never appended.
    mutating func registration(of actor: ActorID, _ db: Database, _ head: LogHead) throws -> Registration? {
        if let known = actors[actor] { return known }
        let found = try LogReader.registration(db, database: head.number, actor: actor)
        if let found { actors[actor] = found }
        return found
    }

    /// Records an actor's new frontier.
    mutating func advance(_ actor: ActorID, to registration: Registration) {
        actors[actor] = registration
        unflushed.insert(actor)
    }

    /// Records the log's new end and the bytes appended.
    mutating func appended(bytes: Int, through offset: Offset, hash: UInt64) {
        self.offset = offset
        self.hash = hash
        unflushedBytes += bytes
    }

    /// The frontiers of the given actors, without those that are not registered.
    func entries(
        of wanted: [ActorID], _ db: Database, _ head: LogHead
    ) throws -> [ActorID: FrontierEntry] {
        var found: [ActorID: FrontierEntry] = [:]
        for actor in wanted {
            let known = try actors[actor] ?? LogReader.registration(db, database: head.number, actor: actor)
            found[actor] = known?.frontier
        }
        return found
    }

    /// True when the outstanding rows must be written: a process that starts reading has to read their
    /// operations.
    func isFull(_ head: LogHead) -> Bool {
        head.flushed.distance(to: head.offset) >= LogLimits.unflushedOperations
            || unflushedBytes >= LogLimits.unflushedBytes
    }

    /// Writes the given actors, all of which must have outdated rows.
    func write(_ db: Database, _ head: LogHead, _ asked: Set<ActorID>) throws {
        guard !asked.isEmpty else { return }
        let upsert = try FastStatement(
            """
            INSERT INTO actors (database, actor, key, sequence, timestamp, hash) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE
            SET sequence = excluded.sequence, timestamp = excluded.timestamp, hash = excluded.hash
            """, db)
        for actor in asked {
            guard let registration = actors[actor] else {
                preconditionFailure("actor \(actor) is to be written but is not known")
            }
            upsert.bind(1, head.number)
            upsert.bind(2, bits: actor.rawValue)
            upsert.bind(3, registration.key)
            upsert.bind(4, bits: registration.frontier.sequence.rawValue)
            upsert.bind(5, bits: registration.frontier.timestamp)
            upsert.bind(6, bits: registration.frontier.hash)
            try upsert.run()
        }
    }

    /// Writes all outdated rows.
    mutating func flush(_ db: Database, _ head: inout LogHead) throws {
        try write(db, head, unflushed)
        let update = try FastStatement(
            "UPDATE databases SET settled = ?1, settledHash = ?2 WHERE number = ?3", db)
        update.bind(1, bits: offset.rawValue)
        update.bind(2, bits: hash)
        update.bind(3, head.number)
        try update.run()
        (head.flushed, head.flushedHash) = (offset, hash)
        unflushed = []
        unflushedBytes = 0
    }
}
