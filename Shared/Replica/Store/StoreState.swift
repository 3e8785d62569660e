import CRDT
import GRDB
import Machine

/// The store's one-row state: who it writes as, what time it has seen, how far it is.
///
/// Read at open, changed only while the write lock is held, written in the transaction it belongs to; the
/// copy in memory is replaced only after that transaction has committed.
struct StoreState: Sendable, Equatable {
    /// The actor of the next local write.
    var actor: ActorID
    /// The sequence of that actor's last operation; 0 before its first.
    var sequence: SequenceNumber
    /// The hybrid clock: everything drawn or received so far.
    var clock: HybridClock
    /// The number of the last commit that changed a document; in a materialization the log's offset.
    var head: UInt64
    /// Which file the store was in when it was last opened: a copy differs (rule 9).
    var file: FileIdentity
    /// The log that a materialization folds, and its chain hash at `head`; nil on a peer.
    var logID: LogID?
    var logHash: UInt64
    /// The greatest offset at which a tombstone had last changed that was reaped since; 0 while none was.
    var reapFloor: Offset = 0

    /// Takes note of a foreign timestamp. Throws `clockTooFarAhead` for one that leaves a clock following it
    /// no room; the bound is absolute, so that all stores agree (rule 21 keeps wall clocks out of this).
    mutating func observe(_ timestamp: Timestamp) throws(ReplicaError) {
        guard HybridClock.milliseconds(of: timestamp) <= ReplicaLimits.stampMilliseconds else {
            throw ReplicaError(
                .clockTooFarAhead,
                "a stamp's time is \(HybridClock.milliseconds(of: timestamp)) ms after 1970")
        }
        clock.observe(timestamp)
    }

    /// Takes a new actor. The one before never writes again, so what it may not write is forgotten.
    mutating func renewActor(_ environment: Environment, _ database: Database) throws {
        try Evicted.forgetAll(but: actor, database)
        actor = ActorID(environment.random())
        sequence = 0
        try RawStatement(cached: "DELETE FROM withheld_actor", database).run()
    }

    static func load(_ database: Database) throws -> StoreState? {
        let statement = try RawStatement(
            cached: """
                SELECT actor, sequence, clock, head, device, inode, log, log_hash, born, reap_floor FROM store
                """, database)
        guard try statement.step() else { return nil }
        return StoreState(
            actor: ActorID(statement.bits(0)), sequence: SequenceNumber(statement.bits(1)),
            clock: HybridClock(latest: statement.bits(2)), head: statement.bits(3),
            file: FileIdentity(
                device: statement.bits(4), inode: statement.bits(5), born: statement.bits(8)),
            logID: LogID(bytes: statement.bytes(6)),
            logHash: statement.bits(7), reapFloor: Offset(statement.bits(9)))
    }

    func save(_ database: Database) throws {
        let statement = try RawStatement(
            cached: """
                INSERT INTO store (one, actor, sequence, clock, head, device, inode, log, log_hash, born,
                    reap_floor)
                VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                ON CONFLICT (one) DO UPDATE SET actor = ?1, sequence = ?2, clock = ?3, head = ?4, device = ?5,
                    inode = ?6, log = ?7, log_hash = ?8, born = ?9, reap_floor = ?10
                """, database)
        statement.bind(1, bits: actor.rawValue)
        statement.bind(2, bits: sequence.rawValue)
        statement.bind(3, bits: clock.latest)
        statement.bind(4, bits: head)
        statement.bind(5, bits: file.device)
        statement.bind(6, bits: file.inode)
        statement.bind(7, logID?.bytes ?? [])
        statement.bind(8, bits: logHash)
        statement.bind(9, bits: file.born)
        statement.bind(10, bits: reapFloor.rawValue)
        try statement.run()
    }
}

/// Which file on which device: tells a store from its copy.
struct FileIdentity: Sendable, Equatable {
    let device: UInt64
    let inode: UInt64
    /// When the file was made, in nanoseconds since 1970; 0 when that is not known.
    let born: UInt64

    /// Whether both are in one place, whenever they were made.
    func isAt(_ other: FileIdentity) -> Bool { device == other.device && inode == other.inode }
}
