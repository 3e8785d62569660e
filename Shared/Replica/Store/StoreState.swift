import CRDT
import GRDB
import Machine

/// The store's one-row state: its actor, its clock, its head.
///
/// Read at open, changed only while the write lock is held, written in the transaction it belongs to; the
/// copy in memory is replaced only after that transaction has committed.
struct StoreState: Sendable, Equatable {
    /// The actor of the next local write.
    private(set) var actor: ActorID
    /// The sequence of that actor's last operation; 0 before its first.
    private(set) var sequence: SequenceNumber
    /// The hybrid clock: everything drawn or received so far.
    private(set) var clock: HybridClock
    /// The number of the last commit that changed a document; in a materialization the log's offset.
    private(set) var head: UInt64
    /// The file of the store when it was last opened: a copy differs (rule 9).
    private(set) var file: FileIdentity
    /// The log that a materialization folds, and its chain hash at `head`; nil on a peer.
    private(set) var logID: LogID?
    private(set) var logHash: UInt64
    /// The greatest offset of the last change of a tombstone that was reaped later; 0 while none was.
    private(set) var reapFloor: Offset = 0

    /// The state of a new store.
    init(actor: ActorID, file: FileIdentity) {
        (self.actor, sequence, clock, head) = (actor, 0, HybridClock(), 0)
        (self.file, logID, logHash) = (file, nil, 0)
    }

    private init(_ row: borrowing RawStatement) {
        actor = ActorID(row.bits(0))
        sequence = SequenceNumber(row.bits(1))
        clock = HybridClock(latest: row.bits(2))
        head = row.bits(3)
        file = FileIdentity(device: row.bits(4), inode: row.bits(5), born: row.bits(8))
        logID = LogID(bytes: row.bytes(6))
        logHash = row.bits(7)
        reapFloor = Offset(row.bits(9))
    }

    /// The offset up to which a materialization has folded its log: its `head`.
    var foldedThrough: Offset { Offset(head) }

    // MARK: What happens to a peer's store

    /// A commit changes documents.
    mutating func advance() { head += 1 }

    /// The actor has written its operation of this sequence.
    mutating func wrote(_ sequence: SequenceNumber) { self.sequence = sequence }

    /// The store's file was found at a place.
    mutating func opened(at file: FileIdentity) { self.file = file }

    // MARK: What happens to a materialization

    /// A snapshot at a position was loaded.
    mutating func loaded(_ position: LogPosition, reapFloor: Offset) {
        folded(to: position)
        self.reapFloor = reapFloor
    }

    /// The log is folded up to a position.
    mutating func folded(to position: LogPosition) {
        (logID, logHash) = (position.logID, position.hash)
        head = position.offset.rawValue
    }

    /// A tombstone was reaped whose last change has this offset.
    mutating func reaped(_ last: Offset) { reapFloor = max(reapFloor, last) }

    /// The next operation that is drafted is of an actor that a service has leased.
    mutating func write(as actor: ActorID, next sequence: SequenceNumber) {
        (self.actor, self.sequence) = (actor, sequence.previous)
    }

    // MARK: The clock

    /// The time of the next own stamp.
    mutating func drawTime(_ environment: Environment) -> Timestamp {
        clock.next(wallMilliseconds: environment.wallMilliseconds())
    }

    /// Leaves out some of the times that would be drawn next.
    mutating func skipTimes(_ count: UInt64) { clock.skip(count) }

    /// Sets the clock back: no document has a later stamp any more.
    mutating func resetClock(to latest: Timestamp) { clock = HybridClock(latest: latest) }

    /// Records a time of this store's own, which needs no bound.
    mutating func observeOwn(_ timestamp: Timestamp) { clock.observe(timestamp) }

    /// Records a foreign timestamp. Throws `clockTooFarAhead` for one that leaves the clock no room; the
    /// bound is absolute, so that all stores agree (rule 21 keeps wall clocks out of this).
    mutating func observe(_ timestamp: Timestamp) throws(ReplicaError) {
        guard HybridClock.milliseconds(of: timestamp) <= ReplicaLimits.stampMilliseconds else {
            throw ReplicaError(
                .clockTooFarAhead,
                "a stamp has the time \(HybridClock.milliseconds(of: timestamp)) ms after 1970")
        }
        clock.observe(timestamp)
    }

    /// Takes a new actor. The previous one never writes again, so its list of evicted documents is deleted.
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
        return StoreState(statement)
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

/// Identifies a file on a device: tells a store from its copy.
struct FileIdentity: Sendable, Equatable {
    let device: UInt64
    let inode: UInt64
    /// The file's time of birth, in nanoseconds since 1970; 0 if unknown.
    let born: UInt64

    /// Returns whether both have the same place, whatever their times of birth.
    func isAt(_ other: FileIdentity) -> Bool { device == other.device && inode == other.inode }
}
