import CRDT
import GRDB

/// The frontier of what a materialization has folded: per actor the last sequence and timestamp (rule 13).
///
/// A function of the entries alone, so every fold agrees on it; kept in the table `frontier`, in the
/// transaction of the documents. The entries of a batch wait in memory, for most batches have few actors.
struct FoldedFrontier {
    private var pending: [ActorID: ActorProgress] = [:]

    /// Takes note of an entry. The log orders an actor's sequences; its timestamps only grow.
    mutating func advance(_ actor: ActorID, _ sequence: SequenceNumber, _ timestamp: Timestamp) {
        let time = max(pending[actor]?.timestamp ?? 0, timestamp)
        pending[actor] = ActorProgress(actor: actor, sequence: sequence, timestamp: time)
    }

    /// Writes what the batch added.
    func save(_ database: Database) throws {
        for progress in pending.values { try Self.put(progress, database) }
    }

    /// Writes an actor's progress; a timestamp never retreats.
    static func put(_ progress: ActorProgress, _ database: Database) throws {
        let statement = try RawStatement(
            cached: """
                INSERT INTO frontier (actor, sequence, timestamp) VALUES (?1, ?2, ?3)
                ON CONFLICT (actor) DO UPDATE SET sequence = ?2, timestamp = max(timestamp, ?3)
                """, database)
        statement.bind(1, bits: progress.actor.rawValue)
        statement.bind(2, bits: progress.sequence.rawValue)
        statement.bind(3, bits: progress.timestamp)
        try statement.run()
    }

    static func progress(of actor: ActorID, _ database: Database) throws -> ActorProgress? {
        let statement = try RawStatement(
            cached: "SELECT sequence, timestamp FROM frontier WHERE actor = ?", database)
        statement.bind(1, bits: actor.rawValue)
        guard try statement.step() else { return nil }
        return ActorProgress(
            actor: actor, sequence: SequenceNumber(statement.bits(0)), timestamp: statement.bits(1))
    }

    static func all(_ database: Database) throws -> [ActorProgress] {
        let statement = try RawStatement(
            cached: "SELECT actor, sequence, timestamp FROM frontier", database)
        var all: [ActorProgress] = []
        while try statement.step() {
            all.append(
                ActorProgress(
                    actor: ActorID(statement.bits(0)), sequence: SequenceNumber(statement.bits(1)),
                    timestamp: statement.bits(2)))
        }
        return all.sorted { $0.actor < $1.actor }
    }
}

extension ReadTransaction {
    /// See `Materialization.reapFloor`.
    public func reapFloor() throws -> Offset {
        try withDatabase { try StoreState.load($0)?.reapFloor ?? 0 }
    }

    /// The folded frontier of these actors, in the order of `actors`, without unknown ones.
    public func frontier(of actors: [ActorID]) throws -> [ActorProgress] {
        try withDatabase { database in
            try actors.compactMap { try FoldedFrontier.progress(of: $0, database) }
        }
    }

    /// The folded frontier of every actor, ascending.
    public func frontier() throws -> [ActorProgress] { try withDatabase { try FoldedFrontier.all($0) } }
}
