import CRDT
import Foundation
import GRDB

/// Where a database's log ends after a commit.
struct GrownHead: Sendable {
    let database: DatabaseID
    let offset: Offset
    /// What was appended, if it is little (`LogChange`).
    let entries: [LogEntry]
}

/// One group inside its transaction: decides every operation's outcome and writes what is appended.
///
/// Heads are read once per group, kept here while it lasts, and written back by `store`. That is sound
/// because the transaction holds the write lock from its first statement (BEGIN IMMEDIATE).
struct AppendBatch {
    private typealias Registration = KnownFrontier.Registration

    /// What a group does in one database.
    private struct Part {
        var head: LogHead
        /// Where the log ended before the group.
        let start: Offset
        var frontier: KnownFrontier
        /// Actors that the group has registered.
        var newActors: Set<ActorID> = []
        /// The actor that was appended of last: mostly the next one is its, too. `frontier` lags behind it.
        var latest: (actor: ActorID, registration: Registration)?
        /// Bytes that were appended.
        var bytes = 0
        /// What the group has touched.
        var touches: [(touch: Touch, offset: Offset)] = []
        /// The same by what it is, as far as a condition had to look: most groups have none.
        var offsets: [Touch: Offset] = [:]
        var lookedAt = 0
        /// What was appended, unless it is too much to be brought along.
        var brought: [LogEntry] = []

        var hasGrown: Bool { head.offset > start }

        /// Puts the actor at hand to the others.
        mutating func keepLatest() {
            if let latest { frontier.advance(latest.actor, to: latest.registration) }
        }
    }

    private let db: Database
    /// Unix time, for leases.
    private let nowMilliseconds: Int64
    private var parts: [DatabaseID: Part] = [:]
    /// Why a database cannot be served in this group.
    private var refusals: [DatabaseID: OperationLogError] = [:]
    /// What was touched before the group.
    private let touches: TouchIndex
    /// Where actors stood before it.
    private let frontiers: FrontierIndex
    /// What is appended and not written yet.
    private var rows: [Row] = []
    /// Bytes of what is brought along, of all databases.
    private var broughtBytes = 0
    private let insertOne: FastStatement
    private let insertMany: FastStatement

    private struct Row {
        let position: Int64
        let record: OperationRecord
        let hash: UInt64
    }

    /// How many rows one statement inserts: to begin a statement costs about as much as a row.
    private static let rowsAtOnce = 16
    private static let insertion =
        "INSERT INTO operations (position, actor, sequence, timestamp, hash, bytes) VALUES "
    private static let insertionOfOne = insertion + "(?, ?, ?, ?, ?, ?)"
    private static let insertionOfMany =
        insertion + repeatElement("(?, ?, ?, ?, ?, ?)", count: rowsAtOnce).joined(separator: ", ")

    init(
        _ db: Database, _ touches: TouchIndex, _ frontiers: FrontierIndex, nowMilliseconds: Int64
    ) throws {
        self.db = db
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
                database: id, offset: part.head.offset, entries: bringsAlong ? part.brought : [])
        }
    }

    private var bringsAlong: Bool { broughtBytes <= LogLimits.broughtBytes }

    /// Takes one call.
    /// - Returns: its outcomes, or why the call cannot be served while the rest of the group can.
    /// - Throws: `DatabaseError`, upon which the whole group must be rolled back.
    mutating func apply(_ call: AppendCall) throws -> Result<[AppendOutcome], OperationLogError> {
        // Taken out, so that nothing is copied or looked up for each operation.
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
            // What rests on a refused operation of its actor must not slip in behind it, even if its number
            // fits.
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

    /// What is known of a database before the group, read where it is not: damage in there is the
    /// database's, and the rest of the group goes on.
    private func begin(_ database: DatabaseID) throws -> Part {
        let head = try LogReader.head(db, database: database)
        let frontier = try KnownFrontier.reading(
            db, database, head, since: frontiers.take(head.number))
        return Part(head: head, start: head.offset, frontier: frontier)
    }

    /// Writes the operations that are not written yet.
    private mutating func write() throws {
        defer { rows.removeAll(keepingCapacity: true) }
        guard rows.count < Self.rowsAtOnce else { return try run(insertMany, rows[...]) }
        for place in rows.indices { try run(insertOne, rows[place...place]) }
    }

    /// Binds the rows, the first of them to the first parameters, and runs the statement while their bytes
    /// are held.
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

    /// Writes what is left, heads, new actors, and where the others stand if much of it waits.
    mutating func store() throws {
        try write()
        let headUpdate = try FastStatement("UPDATE databases SET head = ?1, hash = ?2 WHERE number = ?3", db)
        // Taken out, so that nothing is copied.
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

    /// Takes note of what the group has touched and where its actors stand, once it is durable, or was for
    /// nothing.
    func note() {
        for part in parts.values {
            frontiers.keep(part.frontier, of: part.head.number)
            guard part.hasGrown else { continue }
            touches.note(part.touches, in: part.head.number, after: part.start, through: part.head.offset)
        }
    }

    /// The last offset at which something a condition names was touched, if that was after it was read.
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

    /// Why an operation is not appended; nil if it is.
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
