import CRDT
import Foundation
import GRDB

/// Where a database's log ends after a commit.
struct GrownHead: Sendable {
    let database: String
    let offset: UInt64
    /// What was appended, if it is little (`LogChange`).
    let entries: [LogEntry]
}

/// One group inside its transaction: decides every operation's outcome and writes what is appended.
///
/// Heads and frontiers are read once per group, kept here while it lasts, and written back by `store`. That
/// is sound because the transaction holds the write lock from its first statement (BEGIN IMMEDIATE).
struct AppendBatch {
    private struct ActorKey: Hashable {
        let database: Int64
        let actor: ActorID
    }

    private struct Registration {
        let key: String
        var frontier: FrontierEntry
    }

    private let db: Database
    /// Unix time, for leases.
    private let nowMilliseconds: Int64
    private var heads: [String: LogHead] = [:]
    private var changedHeads: Set<String> = []
    /// What is known of an actor; `.some(nil)` if it is known not to be registered.
    private var registrations: [ActorKey: Registration?] = [:]
    private var changedActors: Set<ActorKey> = []
    /// The actor that was appended of last: mostly the next one is its, too. `registrations` lags behind it.
    private var latest: (key: ActorKey, registration: Registration)?
    /// What this group has touched in one database.
    private struct Touched {
        /// Where the log ended before the group.
        let start: UInt64
        var touches: [(touch: Touch, offset: UInt64)] = []
        /// The same by what it is, as far as a condition had to look: most groups have none.
        var offsets: [Touch: UInt64] = [:]
        var lookedAt = 0
    }

    private var touched: [Int64: Touched] = [:]
    /// What was touched before it.
    private let index: TouchIndex
    /// What is appended and not written yet.
    private var rows: [Row] = []
    /// What was appended, by database, until it is too much to be brought along.
    private var brought: [String: [LogEntry]] = [:]
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

    init(_ db: Database, _ index: TouchIndex, nowMilliseconds: Int64) throws {
        self.db = db
        self.index = index
        insertOne = try FastStatement(Self.insertionOfOne, db)
        insertMany = try FastStatement(Self.insertionOfMany, db)
        self.nowMilliseconds = nowMilliseconds
    }

    /// The new heads of the databases that grew.
    var grownHeads: [GrownHead] {
        changedHeads.compactMap { id in
            heads[id].map {
                GrownHead(database: id, offset: $0.offset, entries: bringsAlong ? brought[id] ?? [] : [])
            }
        }
    }

    private var bringsAlong: Bool { broughtBytes <= LogLimits.broughtBytes }

    /// Takes one call.
    /// - Returns: its outcomes, or why the call cannot be served while the rest of the group can.
    /// - Throws: `DatabaseError`, upon which the whole group must be rolled back.
    mutating func apply(_ call: AppendCall) throws -> Result<[AppendOutcome], OperationLogError> {
        var head: LogHead
        do {
            head = try heads[call.database] ?? LogReader.head(db, database: call.database)
        } catch let error as OperationLogError {
            return .failure(error)
        }
        var outcomes: [AppendOutcome] = []
        outcomes.reserveCapacity(call.operations.count)
        let offsetBefore = head.offset
        // Taken out, so that nothing is copied or looked up for each operation.
        var group = touched.removeValue(forKey: head.number) ?? Touched(start: head.offset)
        defer { touched[head.number] = group }
        var heldBack: Set<ActorID> = []
        for operation in call.operations {
            // What rests on a refused operation of its actor must not slip in behind it, even if its number
            // fits.
            guard heldBack.isEmpty || !heldBack.contains(operation.record.actor) else {
                outcomes.append(.gap(expected: try nextSequence(of: operation.record.actor, head)))
                continue
            }
            let outcome = try append(operation, &head, &group)
            if case .appended(let offset) = outcome, bringsAlong {
                broughtBytes += operation.record.bytes.count
                brought[call.database, default: []].append(
                    LogEntry(offset: offset, hash: head.hash, record: operation.record))
            }
            switch outcome {
            case .appended, .duplicate: break
            case .gap, .conflict: heldBack.insert(operation.record.actor)
            }
            outcomes.append(outcome)
        }
        if head.offset != offsetBefore { changedHeads.insert(call.database) }
        heads[call.database] = head
        return .success(outcomes)
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
        statement.bind(parameter + 2, bits: row.record.sequence)
        statement.bind(parameter + 3, bits: row.record.timestamp)
        statement.bind(parameter + 4, bits: row.hash)
        try statement.withBound(parameter + 5, row.record.bytes) {
            try run(statement, rows.dropFirst(), at: parameter + 6)
        }
    }

    /// Writes what is left, and heads and frontiers back.
    mutating func store() throws {
        try write()
        keepLatest()
        // The index of last offsets that earlier versions keep in the file ends here for them.
        let headUpdate = try FastStatement(
            "UPDATE databases SET head = ?1, hash = ?2, indexed = ?1 WHERE number = ?3", db)
        for id in changedHeads {
            guard let head = heads[id] else { preconditionFailure("database \(id) grew but was never read") }
            headUpdate.bind(1, bits: head.offset)
            headUpdate.bind(2, bits: head.hash)
            headUpdate.bind(3, head.number)
            try headUpdate.run()
        }
        let actorUpdate = try FastStatement(
            """
            INSERT INTO actors (database, actor, key, sequence, timestamp, hash) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE
            SET sequence = excluded.sequence, timestamp = excluded.timestamp, hash = excluded.hash
            """, db)
        for key in changedActors {
            guard case .some(.some(let registration)) = registrations[key] else {
                preconditionFailure("actor \(key.actor) advanced but is not registered")
            }
            actorUpdate.bind(1, key.database)
            actorUpdate.bind(2, bits: key.actor.rawValue)
            actorUpdate.bind(3, registration.key)
            actorUpdate.bind(4, bits: registration.frontier.sequence)
            actorUpdate.bind(5, bits: registration.frontier.timestamp)
            actorUpdate.bind(6, bits: registration.frontier.hash)
            try actorUpdate.run()
        }
    }

    /// Takes note of what the group has touched, once it is durable.
    func noteTouches() {
        for id in changedHeads {
            guard let head = heads[id], let touched = touched[head.number] else { continue }
            index.note(touched.touches, in: head.number, after: touched.start, through: head.offset)
        }
    }

    /// The last offset at which something a condition names was touched, if that was after it was read.
    private func breach(
        of condition: AppendCondition?, _ head: LogHead, _ group: inout Touched
    ) throws -> UInt64? {
        guard let condition, condition.readAt < head.offset else { return nil }
        guard condition.readAt >= head.truncated else { return head.truncated }
        for item in group.touches[group.lookedAt...] { group.offsets[item.touch] = item.offset }
        group.lookedAt = group.touches.count
        var last = condition.reads.reduce(0) { max($0, group.offsets[$1] ?? 0) }
        if last <= condition.readAt, condition.readAt < group.start {
            last =
                try index.last(
                    of: condition.reads, after: condition.readAt, head: head, through: group.start, db) ?? 0
        }
        return last > condition.readAt ? last : nil
    }

    private mutating func append(
        _ operation: PreparedOperation, _ head: inout LogHead, _ group: inout Touched
    ) throws -> AppendOutcome {
        let record = operation.record
        let key = ActorKey(database: head.number, actor: record.actor)
        let registration = try registration(of: key)
        if let refusal = refusal(of: operation, under: registration) { return refusal }
        if let lease = operation.lease,
            try !LogLeases.isHeld(lease, by: record.actor, db, head, now: nowMilliseconds)
        {
            return .conflict(.leaseLost)
        }
        if let offset = try breach(of: operation.condition, head, &group) {
            return .conflict(.condition(offset: offset))
        }
        head.offset += 1
        head.hash = ChainHash.next(after: head.hash, digest: operation.digest)
        rows.append(
            Row(
                position: LogKey.of(database: head.number, offset: head.offset), record: record,
                hash: head.hash))
        if rows.count == Self.rowsAtOnce { try write() }
        for touch in operation.touches { group.touches.append((touch, head.offset)) }
        let frontier = FrontierEntry(
            sequence: record.sequence, timestamp: record.timestamp, hash: operation.contentHash,
            authorKey: registration?.key ?? operation.authorKey)
        if latest?.key != key {
            keepLatest()
            changedActors.insert(key)
        }
        latest = (key, Registration(key: frontier.authorKey, frontier: frontier))
        return .appended(offset: head.offset)
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
        if sequence > last + 1 { return .gap(expected: last + 1) }
        guard let registration, sequence <= last else { return nil }
        if sequence == last && operation.contentHash != registration.frontier.hash {
            return .conflict(.differentContent(sequence: sequence))
        }
        return .duplicate(through: last)
    }

    /// Puts the actor at hand to the others.
    private mutating func keepLatest() {
        if let latest { registrations[latest.key] = .some(latest.registration) }
    }

    private mutating func nextSequence(of actor: ActorID, _ head: LogHead) throws -> UInt64 {
        let known = try registration(of: ActorKey(database: head.number, actor: actor))
        return (known?.frontier.sequence ?? 0) + 1
    }

    private mutating func registration(of key: ActorKey) throws -> Registration? {
        if let latest, latest.key == key { return latest.registration }
        if let known = registrations[key] { return known }
        let found = try LogReader.registration(db, database: key.database, actor: key.actor)
            .map { Registration(key: $0.key, frontier: $0.frontier) }
        registrations[key] = .some(found)
        return found
    }
}
