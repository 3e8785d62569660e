import CRDT
import Foundation
import GRDB

/// Where a database's log ends after a commit.
struct GrownHead: Sendable {
    let database: String
    let offset: UInt64
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
    /// What this group has touched, in order.
    private var touches: [(database: Int64, touch: Touch, offset: UInt64)] = []
    /// The same by what it is, as far as a condition had to look: most groups have none.
    private var touched: [Int64: [Touch: UInt64]] = [:]
    private var touchesLookedAt = 0
    private let insert: FastStatement

    init(_ db: Database, nowMilliseconds: Int64) throws {
        self.db = db
        insert = try FastStatement(
            """
            INSERT INTO operations (position, actor, sequence, timestamp, hash, bytes)
            VALUES (?, ?, ?, ?, ?, ?)
            """, db)
        self.nowMilliseconds = nowMilliseconds
    }

    /// The new heads of the databases that grew.
    var grownHeads: [GrownHead] {
        changedHeads.compactMap { id in heads[id].map { GrownHead(database: id, offset: $0.offset) } }
    }

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
        var heldBack: Set<ActorID> = []
        for operation in call.operations {
            // What rests on a refused operation of its actor must not slip in behind it, even if its number
            // fits.
            guard !heldBack.contains(operation.record.actor) else {
                outcomes.append(.gap(expected: try nextSequence(of: operation.record.actor, head)))
                continue
            }
            let outcome = try append(operation, &head)
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

    /// Writes heads and frontiers back.
    mutating func store() throws {
        keepLatest()
        let headUpdate = try FastStatement("UPDATE databases SET head = ?, hash = ? WHERE number = ?", db)
        for id in changedHeads {
            guard let head = heads[id] else { preconditionFailure("database \(id) grew but was never read") }
            headUpdate.bind(1, bits: head.offset)
            headUpdate.bind(2, bits: head.hash)
            headUpdate.bind(3, head.number)
            try headUpdate.run()
        }
        try storeTouches()
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

    /// Writes the index of last offsets back.
    private func storeTouches() throws {
        let update = try FastStatement(
            """
            INSERT INTO touched (database, touch, offset) VALUES (?, ?, ?)
            ON CONFLICT DO UPDATE SET offset = excluded.offset
            """, db)
        // In the order of the index, so that neighbours are on one page; of each the last one.
        let sorted = touches.sorted { left, right in
            guard left.database == right.database else { return left.database < right.database }
            guard left.touch != right.touch else { return left.offset < right.offset }
            return left.touch.isBefore(right.touch)
        }
        for (place, item) in sorted.enumerated() {
            if place + 1 < sorted.count, sorted[place + 1].touch == item.touch,
                sorted[place + 1].database == item.database
            {
                continue
            }
            update.bind(1, item.database)
            update.bind(2, bits: item.touch.rawValue)
            update.bind(3, bits: item.offset)
            try update.run()
        }
    }

    /// The last offset at which something a condition names was touched, if that was after it was read.
    private mutating func breach(of condition: AppendCondition?, _ head: LogHead) throws -> UInt64? {
        guard let condition, condition.readAt < head.offset else { return nil }
        guard condition.readAt >= head.indexed else { return head.indexed }
        for item in touches[touchesLookedAt...] {
            touched[item.database, default: [:]][item.touch] = item.offset
        }
        touchesLookedAt = touches.count
        let look = try db.cachedStatement(sql: "SELECT offset FROM touched WHERE database = ? AND touch = ?")
        var last: UInt64 = 0
        for read in condition.reads {
            if let offset = touched[head.number]?[read] {
                last = max(last, offset)
            } else {
                let arguments: StatementArguments = [head.number, Int64(bitPattern: read.rawValue)]
                let stored = try Int64.fetchOne(look, arguments: arguments) ?? 0
                last = max(last, UInt64(bitPattern: stored))
            }
        }
        return last > condition.readAt ? last : nil
    }

    private mutating func append(
        _ operation: PreparedOperation, _ head: inout LogHead
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
        if let offset = try breach(of: operation.condition, head) {
            return .conflict(.condition(offset: offset))
        }
        head.offset += 1
        head.hash = ChainHash.next(after: head.hash, digest: operation.digest)
        insert.bind(1, LogKey.of(database: head.number, offset: head.offset))
        insert.bind(2, bits: record.actor.rawValue)
        insert.bind(3, bits: record.sequence)
        insert.bind(4, bits: record.timestamp)
        insert.bind(5, bits: head.hash)
        try insert.run(6, record.bytes)
        for touch in operation.touches { touches.append((head.number, touch, head.offset)) }
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

extension Touch {
    /// In the order of the numbers that SQLite stores.
    fileprivate func isBefore(_ other: Touch) -> Bool {
        Int64(bitPattern: rawValue) < Int64(bitPattern: other.rawValue)
    }
}
