import CRDT
import Foundation
import GRDB

/// The end of a database's log after a commit.
struct GrownHead: Sendable {
    let database: DatabaseID
    let position: LogPosition
    /// The appended entries, if they are few (`LogChange`).
    let entries: [LogEntry]
}

/// One group inside its transaction: decides every operation's outcome and writes what is appended.
///
/// Each head is read once per group, kept here until its end, and written back by `store`. The write lock,
/// which the transaction holds from its first statement (BEGIN IMMEDIATE), makes this sound.
struct AppendBatch {
    private typealias Registration = KnownFrontier.Registration

    /// The work of a group in one database.
    private struct Part {
        var head: LogHead
        /// The end of the log before the group.
        let start: Offset
        var frontier: KnownFrontier
        /// Actors that the group registers.
        var newActors: Set<ActorID> = []
        /// The actor appended last, which mostly is the next one too. `frontier` does not have it yet.
        var latest: (actor: ActorID, registration: Registration)?
        /// Bytes appended by the group.
        var bytes = 0
        /// Documents and collections touched by the group.
        var touches: [(touch: Touch, offset: Offset)] = []
        /// The first `lookedAt` touches as a table, built only when a condition needs it: most groups have
        /// none.
        var offsets: [Touch: Offset] = [:]
        var lookedAt = 0
        /// The appended entries, unless they are too large for a wake-up.
        var brought: [LogEntry] = []

        var hasGrown: Bool { head.offset > start }

        /// Adds the latest actor to the frontier.
        mutating func keepLatest() {
            if let latest { frontier.advance(latest.actor, to: latest.registration) }
        }
    }

    private let db: Database
    /// Unix time, for leases.
    private let nowMilliseconds: Int64
    private var parts: [DatabaseID: Part] = [:]
    /// Databases that cannot be served in this group, with the reason.
    private var refusals: [DatabaseID: OperationLogError] = [:]
    /// The touches before the group.
    private let touches: TouchIndex
    /// The actors' frontiers before the group.
    private let frontiers: FrontierIndex
    /// The databases, by number, that are known to have moved.
    private let moves: [Int64: NewPlace]
    /// Appended rows that are not written yet.
    private var rows: [Row] = []
    /// Bytes of the entries for wake-ups, over all databases.
    private var broughtBytes = 0
    private let insertOne: FastStatement
    private let insertMany: FastStatement

    private struct Row {
        let position: Int64
        let record: OperationRecord
        let hash: UInt64
    }

    /// Rows inserted by one statement: beginning a statement costs about as much as a row.
    private static let rowsAtOnce = 16
    private static let insertion =
        "INSERT INTO operations (position, actor, sequence, timestamp, hash, bytes) VALUES "
    private static let insertionOfOne = insertion + "(?, ?, ?, ?, ?, ?)"
    private static let insertionOfMany =
        insertion + repeatElement("(?, ?, ?, ?, ?, ?)", count: rowsAtOnce).joined(separator: ", ")

    init(
        _ db: Database, _ touches: TouchIndex, _ frontiers: FrontierIndex, moves: [Int64: NewPlace],
        nowMilliseconds: Int64
    ) throws {
        self.db = db
        self.moves = moves
        self.touches = touches
        self.frontiers = frontiers
        insertOne = try FastStatement(Self.insertionOfOne, db)
        insertMany = try FastStatement(Self.insertionOfMany, db)
        self.nowMilliseconds = nowMilliseconds
    }

    /// The new heads of the databases that grew.
    var grownHeads: [GrownHead] {
        parts.compactMap { id, part in
            guard part.hasGrown else { return nil }
            return GrownHead(
                database: id, position: part.head.position, entries: bringsAlong ? part.brought : [])
        }
    }

    /// A position that the group reaches: stored with its commit, so that a log that lacks it is noticed.
    var reached: (UInt64, UInt64, UInt64)? {
        parts.first { $0.value.hasGrown }.map {
            LogReader.note(of: $0.value.head)
        }
    }

    private var bringsAlong: Bool { broughtBytes <= LogLimits.broughtBytes }

    /// Decides one call.
    /// - Returns: its outcomes, or the reason why this call fails while the rest of the group proceeds.
    /// - Throws: `DatabaseError`, after which the whole group must be rolled back.
    mutating func apply(_ call: AppendCall) throws -> Result<[AppendOutcome], OperationLogError> {
        // Taken out of the dictionary, so that no operation copies it or looks it up again.
        var part: Part
        if let refusal = refusals[call.database] { return .failure(refusal) }
        do {
            part = try parts.removeValue(forKey: call.database) ?? begin(call.database)
        } catch let error as OperationLogError {
            refusals[call.database] = error
            return .failure(error)
        }
        defer { parts[call.database] = part }
        var outcomes: [AppendOutcome] = []
        outcomes.reserveCapacity(call.operations.count)
        var heldBack: Set<ActorID> = []
        for operation in call.operations {
            // A later operation of an actor with a refused one may rest on that one, so it is refused even
            // if its number fits.
            guard heldBack.isEmpty || !heldBack.contains(operation.record.actor) else {
                outcomes.append(.gap(expected: try nextSequence(of: operation.record.actor, &part)))
                continue
            }
            let outcome = try append(operation, &part)
            if case .appended(let offset) = outcome, bringsAlong {
                broughtBytes += operation.record.bytes.count
                part.brought.append(
                    LogEntry(offset: offset, hash: part.head.hash, record: operation.record))
            }
            switch outcome {
            case .appended, .duplicate: break
            case .gap, .conflict: heldBack.insert(operation.record.actor)
            }
            outcomes.append(outcome)
        }
        return .success(outcomes)
    }

    /// The known state of a database before the group, read if it is not in memory. Damage fails only this
    /// database; the rest of the group proceeds.
    private func begin(_ database: DatabaseID) throws -> Part {
        let head = try LogReader.head(db, database: database)
        if let place = moves[head.number] { throw place.refusal(of: database) }
        let frontier = try KnownFrontier.reading(
            db, database, head, since: frontiers.take(head.number))
        return Part(head: head, start: head.offset, frontier: frontier)
    }

    /// Writes the pending rows.
    private mutating func write() throws {
        defer { rows.removeAll(keepingCapacity: true) }
        guard rows.count < Self.rowsAtOnce else { return try run(insertMany, rows[...]) }
        for place in rows.indices { try run(insertOne, rows[place...place]) }
    }

    /// Binds the rows one after the other, from the given parameter on, and runs the statement while their
    /// bytes are held.
    private func run(_ statement: FastStatement, _ rows: ArraySlice<Row>, at parameter: Int32 = 1) throws {
        guard let row = rows.first else { return try statement.run() }
        statement.bind(parameter, row.position)
        statement.bind(parameter + 1, bits: row.record.actor.rawValue)
        statement.bind(parameter + 2, bits: row.record.sequence.rawValue)
        statement.bind(parameter + 3, bits: row.record.timestamp)
        statement.bind(parameter + 4, bits: row.hash)
        try statement.withBound(parameter + 5, row.record.bytes) {
            try run(statement, rows.dropFirst(), at: parameter + 6)
        }
    }

    /// Writes the pending rows, the heads, the new actors, and the other actors' rows if many are
    /// outstanding.
    mutating func store() throws {
        try write()
        let headUpdate = try FastStatement("UPDATE databases SET head = ?1, hash = ?2 WHERE number = ?3", db)
        // Taken out of the dictionary, so that nothing is copied.
        for id in Array(parts.keys) {
            guard var part = parts.removeValue(forKey: id) else { continue }
            defer { parts[id] = part }
            try store(&part, headUpdate)
        }
    }

    private func store(_ part: inout Part, _ headUpdate: FastStatement) throws {
        guard part.hasGrown else { return }
        part.keepLatest()
        part.frontier.appended(bytes: part.bytes, through: part.head.offset, hash: part.head.hash)
        headUpdate.bind(1, bits: part.head.offset.rawValue)
        headUpdate.bind(2, bits: part.head.hash)
        headUpdate.bind(3, part.head.number)
        try headUpdate.run()
        try part.frontier.write(db, part.head, part.newActors)
        if part.frontier.isFull(part.head) { try part.frontier.flush(db, &part.head) }
    }

    /// Updates the indexes with the group's touches and frontiers. Called once the group is durable, or had
    /// nothing to store.
    func note() {
        for part in parts.values {
            frontiers.keep(part.frontier, of: part.head.number)
            guard part.hasGrown else { continue }
            touches.note(part.touches, in: part.head.number, after: part.start, through: part.head.offset)
        }
    }

    /// The last offset at which a document or collection of the condition was touched after it was read;
    /// nil if none was.
    private func breach(of condition: AppendCondition?, _ part: inout Part) throws -> Offset? {
        guard let condition, condition.readAt < part.head.offset else { return nil }
        guard condition.readAt >= part.head.truncated else { return part.head.truncated }
        for item in part.touches[part.lookedAt...] { part.offsets[item.touch] = item.offset }
        part.lookedAt = part.touches.count
        var last = condition.reads.reduce(0) { max($0, part.offsets[$1] ?? 0) }
        if last <= condition.readAt, condition.readAt < part.start {
            last =
                try touches.last(
                    of: condition.reads, after: condition.readAt, head: part.head, through: part.start, db)
                ?? 0
        }
        return last > condition.readAt ? last : nil
    }

    private mutating func append(_ operation: PreparedOperation, _ part: inout Part) throws -> AppendOutcome {
        let record = operation.record
        let registration = try registration(of: record.actor, &part)
        if let refusal = refusal(of: operation, under: registration) { return refusal }
        if let lease = operation.lease,
            try !LogLeases.isHeld(lease, by: record.actor, db, part.head, now: nowMilliseconds)
        {
            return .conflict(.leaseLost)
        }
        if let offset = try breach(of: operation.condition, &part) {
            return .conflict(.condition(offset: offset))
        }
        part.head.offset = part.head.offset.next
        part.head.hash = ChainHash.next(after: part.head.hash, digest: operation.digest)
        part.bytes += record.bytes.count
        rows.append(
            Row(
                position: LogKey.of(database: part.head.number, offset: part.head.offset), record: record,
                hash: part.head.hash))
        if rows.count == Self.rowsAtOnce { try write() }
        for touch in operation.touches { part.touches.append((touch, part.head.offset)) }
        if registration == nil { part.newActors.insert(record.actor) }
        let frontier = FrontierEntry(
            sequence: record.sequence, timestamp: record.timestamp, hash: operation.contentHash,
            authorKey: registration?.key ?? operation.authorKey)
        if part.latest?.actor != record.actor { part.keepLatest() }
        part.latest = (record.actor, Registration(key: frontier.authorKey, frontier: frontier))
        return .appended(offset: part.head.offset)
    }

    /// The refusal of an operation; nil if it may be appended.
    private func refusal(
        of operation: PreparedOperation, under registration: Registration?
    ) -> AppendOutcome? {
        if let registration, !utf8Equal(registration.key, operation.authorKey) {
            return .conflict(.foreignActor)
        }
        let sequence = operation.record.sequence
        let last = registration?.frontier.sequence ?? 0
        if sequence > last.next { return .gap(expected: last.next) }
        guard let registration, sequence <= last else { return nil }
        if sequence == last && operation.contentHash != registration.frontier.hash {
            return .conflict(.differentContent(sequence: sequence))
        }
        return .duplicate(through: last)
    }

    private func nextSequence(of actor: ActorID, _ part: inout Part) throws -> SequenceNumber {
        (try registration(of: actor, &part)?.frontier.sequence ?? 0).next
    }

    private func registration(of actor: ActorID, _ part: inout Part) throws -> Registration? {
        if let latest = part.latest, latest.actor == actor { return latest.registration }
        return try part.frontier.registration(of: actor, db, part.head)
    }
}
