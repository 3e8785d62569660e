import CRDT
import GRDB

/// A materialization's memory of operations besides their effects: per actor the checksums of its
/// latest ones, so that a store whose history forked learns where (rule 9), and the origins of those that
/// were moved (decision 0009).
///
/// Bounded: `ReplicaLimits.historyOperations` per actor, in a ring; origins are rare.
struct FoldedHistory {
    private var checksums: [(actor: ActorID, sequence: SequenceNumber, hash: UInt64)] = []
    private var origins: [UInt64] = []

    /// Takes note of an entry.
    mutating func note(_ actor: ActorID, _ sequence: SequenceNumber, origin: UInt64?, _ bytes: [UInt8]) {
        checksums.append((actor, sequence, hash64(bytes)))
        if let origin { origins.append(origin) }
    }

    /// Writes what the batch added.
    func save(_ database: Database) throws {
        try Self.put(checksums, database)
        for origin in origins { try Self.put(origin: origin, database) }
    }

    /// Notes the checksums of a snapshot.
    static func put(_ run: OperationHashes, _ database: Database) throws {
        try put(
            run.hashes.enumerated().map {
                (run.actor, SequenceNumber(run.first.rawValue &+ UInt64($0.offset)), $0.element)
            },
            database)
    }

    /// How many checksums one statement writes.
    private static let atOnce = 32
    private static let insertion = "INSERT OR REPLACE INTO history (actor, slot, sequence, hash) VALUES "
    private static let insertionOfOne = insertion + "(?, ?, ?, ?)"
    private static let insertionOfMany =
        insertion + repeatElement("(?, ?, ?, ?)", count: atOnce).joined(separator: ", ")

    private static func put(
        _ items: [(actor: ActorID, sequence: SequenceNumber, hash: UInt64)], _ database: Database
    ) throws {
        var rest = items[...]
        while !rest.isEmpty {
            let some = rest.prefix(rest.count < atOnce ? 1 : atOnce)
            rest = rest.dropFirst(some.count)
            let statement = try RawStatement(
                cached: some.count == 1 ? insertionOfOne : insertionOfMany, database)
            var parameter: Int32 = 1
            for item in some {
                statement.bind(parameter, bits: item.actor.rawValue)
                statement.bind(parameter + 1, bits: item.sequence.rawValue % ReplicaLimits.historyOperations)
                statement.bind(parameter + 2, bits: item.sequence.rawValue)
                statement.bind(parameter + 3, bits: item.hash)
                parameter += 4
            }
            try statement.run()
        }
    }

    /// The actors of which checksums are kept.
    static func actors(_ database: Database) throws -> [ActorID] {
        let statement = try RawStatement(
            cached: "SELECT DISTINCT actor FROM history ORDER BY actor", database)
        var actors: [ActorID] = []
        while try statement.step() { actors.append(ActorID(statement.bits(0))) }
        return actors
    }

    /// The checksums kept of an actor, the latest that follow one another.
    static func run(of actor: ActorID, _ database: Database) throws -> OperationHashes {
        let statement = try RawStatement(
            cached: "SELECT sequence, hash FROM history WHERE actor = ? ORDER BY sequence DESC", database)
        statement.bind(1, bits: actor.rawValue)
        var first: SequenceNumber?
        var hashes: [UInt64] = []
        while try statement.step(), first.map({ SequenceNumber(statement.bits(0)).next == $0 }) ?? true {
            first = SequenceNumber(statement.bits(0))
            hashes.append(statement.bits(1))
        }
        return OperationHashes(actor: actor, first: first ?? 1, hashes: hashes.reversed())
    }

    /// Notes that an operation of this origin is folded.
    static func put(origin: UInt64, _ database: Database) throws {
        let statement = try RawStatement(
            cached: "INSERT OR IGNORE INTO moved (origin) VALUES (?)", database)
        statement.bind(1, bits: origin)
        try statement.run()
    }

    /// All origins that are folded.
    static func origins(_ database: Database) throws -> [UInt64] {
        let statement = try RawStatement(cached: "SELECT origin FROM moved ORDER BY origin", database)
        var origins: [UInt64] = []
        while try statement.step() { origins.append(statement.bits(0)) }
        return origins
    }
}

extension ReadTransaction {
    /// The checksums of a folded actor's operations after a sequence, up to another one, as far back from
    /// there as they are kept.
    public func hashes(
        of actor: ActorID, after sequence: SequenceNumber, through last: SequenceNumber
    ) throws -> OperationHashes {
        try withDatabase { database in
            let statement = try RawStatement(
                cached: """
                    SELECT sequence, hash FROM history WHERE actor = ? AND sequence > ? AND sequence <= ?
                    ORDER BY sequence DESC
                    """, database)
            statement.bind(1, bits: actor.rawValue)
            statement.bind(2, bits: sequence.rawValue)
            statement.bind(3, bits: last.rawValue)
            var hashes: [UInt64] = []
            while try statement.step(), statement.bits(0) == last.rawValue - UInt64(hashes.count) {
                hashes.append(statement.bits(1))
            }
            return OperationHashes(
                actor: actor, first: last.next.advanced(by: -hashes.count), hashes: hashes.reversed())
        }
    }

    /// The greatest timestamp that was folded, or drawn or received on a peer.
    public func latestTimestamp() throws -> Timestamp {
        try withDatabase { try StoreState.load($0)?.clock.latest ?? 0 }
    }

    /// Returns whether any moved operation is folded.
    public func hasMovedAny() throws -> Bool {
        try withDatabase { try RawStatement(cached: "SELECT 1 FROM moved LIMIT 1", $0).hasRow() }
    }

    /// Returns whether an operation with this origin is folded.
    public func hasMoved(_ origin: UInt64) throws -> Bool {
        try withDatabase { database in
            let statement = try RawStatement(cached: "SELECT 1 FROM moved WHERE origin = ?", database)
            statement.bind(1, bits: origin)
            return try statement.step()
        }
    }
}
