import CRDT
import GRDB

/// Collections whose local writes are not sent to the server (sync scopes, decision 0013).
struct WithheldCollections: Sendable, Equatable {
    /// The collections that the application withholds now.
    var asked: Set<CollectionName> = []
    /// Collections with withheld writes, until `PeerReplica.releaseWithheld` finds them asked for no more.
    var kept: Set<CollectionName> = []

    var isEmpty: Bool { asked.isEmpty && kept.isEmpty }

    /// Returns whether a write to a collection would be withheld now.
    func contains(_ name: CollectionName) -> Bool {
        asked.contains(name) || kept.contains(name)
    }
}

/// Operations that no session sees: each holds what one transaction wrote to one withheld collection, under
/// an actor that writes nothing else.
///
/// Invariants: an actor's operations are either all here or all among the own operations; the vector entries
/// of the actors here are known to nobody else.
enum Withheld {
    /// The collections with something in them.
    static func collections(_ database: Database) throws -> Set<CollectionName> {
        let statement = try RawStatement(
            fresh: "SELECT collection FROM withheld_operation UNION SELECT collection FROM withheld_actor",
            database)
        var names: Set<CollectionName> = []
        while try statement.step() { names.insert(CollectionName(statement.text(0))) }
        return names
    }

    /// The actor that writes a collection; nil when a new one has to.
    static func actor(of collection: CollectionName, _ database: Database) throws -> ActorID? {
        let statement = try RawStatement(
            cached: "SELECT actor FROM withheld_actor WHERE collection = ?", database, collection.text)
        return try statement.step() ? ActorID(statement.bits(0)) : nil
    }

    static func begin(_ actor: ActorID, in collection: CollectionName, _ database: Database) throws {
        try database.run(
            "INSERT OR REPLACE INTO withheld_actor (collection, actor) VALUES (?, ?)",
            collection.text, actor.rawValue)
    }

    /// Somebody new writes a collection from now on: a document that is not here any more had the present
    /// actor in its vector (rule 10).
    static func leaveActor(of collection: CollectionName, _ database: Database) throws {
        try database.run("DELETE FROM withheld_actor WHERE collection = ?", collection.text)
    }

    /// The actors whose writes to a collection nobody else knows.
    static func actors(of collection: CollectionName, _ database: Database) throws -> Set<ActorID> {
        let statement = try RawStatement(
            cached: "SELECT DISTINCT actor FROM withheld_operation WHERE collection = ?", database,
            collection.text)
        var found: Set<ActorID> = []
        while try statement.step() { found.insert(ActorID(statement.bits(0))) }
        return found
    }

    /// The sequence of an actor's last operation here; 0 before the first.
    static func lastSequence(of actor: ActorID, _ database: Database) throws -> SequenceNumber {
        let statement = try RawStatement(
            cached: "SELECT MAX(sequence) FROM withheld_operation WHERE actor = ?", database, actor.rawValue)
        return try statement.step() && !statement.isNull(0) ? SequenceNumber(statement.bits(0)) : 0
    }

    static func insert(
        _ operation: Operation, _ collection: CollectionName, position: UInt64, _ database: Database
    ) throws {
        try database.run(
            """
            INSERT INTO withheld_operation (position, collection, actor, sequence, bytes)
            VALUES (?, ?, ?, ?, ?)
            """, position, collection.text, operation.actor.rawValue, operation.sequence.rawValue,
            operation.encoded())
    }

    /// All operations in the order of their commits; of one collection, or of all.
    static func operations(
        of collection: CollectionName? = nil, _ database: Database
    ) throws -> [(commit: UInt64, bytes: [UInt8])] {
        let condition = collection == nil ? "" : "WHERE collection = ?"
        let statement = try RawStatement(
            fresh: "SELECT position, bytes FROM withheld_operation \(condition) ORDER BY position, actor",
            database)
        if let collection { statement.bind(1, collection.text) }
        var found: [(commit: UInt64, bytes: [UInt8])] = []
        while try statement.step() { found.append((statement.bits(0), statement.bytes(1))) }
        return found
    }

    /// Returns whether a commit has anything here.
    static func has(commit: UInt64, _ database: Database) throws -> Bool {
        try database.holds("SELECT 1 FROM withheld_operation WHERE position = ? LIMIT 1", commit)
    }

    static func remove(_ collection: CollectionName, _ database: Database) throws {
        try database.run("DELETE FROM withheld_operation WHERE collection = ?", collection.text)
        try leaveActor(of: collection, database)
    }
}

extension VersionVector {
    /// The part that others may know of.
    func without(_ actors: Set<ActorID>) -> VersionVector {
        guard !actors.isEmpty else { return self }
        return VersionVector(entries.filter { !actors.contains($0.actor) })
    }
}

extension PeerReplica {
    /// Withholds local writes to these collections, and to no others, from the server from now on. Earlier
    /// withheld writes to others stay withheld until `releaseWithheld`.
    public func withhold(_ collections: [CollectionName]) {
        updateWithheld { $0.asked = Set(collections) }
    }

    /// Returns whether writes to a collection are withheld from the server.
    public func isWithheld(_ collection: CollectionName) -> Bool { withheld.contains(collection) }

    /// Returns whether a commit has withheld writes: then it is not durable on the server, even if its
    /// other writes are.
    public func isWithheld(commit: UInt64) throws -> Bool {
        guard !withheld.isEmpty, commit <= UInt64(Int64.max) else { return false }
        return try read { transaction in
            try transaction.withDatabase { try Withheld.has(commit: commit, $0) }
        }
    }

    /// The actors whose operations are withheld: they are not disclosed.
    package func withheldActors() throws -> Set<ActorID> {
        guard !withheld.isEmpty else { return [] }
        return try read { transaction in
            try transaction.withDatabase { database in
                try Set(Withheld.operations(database).map { try OperationHeader.peek($0.bytes).actor })
            }
        }
    }

    /// Turns the writes of collections that are no longer withheld into own operations, to be uploaded.
    /// Called before a session begins, when the application has set the withheld collections. Returns the
    /// number of operations.
    @discardableResult
    public func releaseWithheld() throws -> Int {
        let asked = withheld.asked
        let before = withheld.kept
        guard !before.isSubset(of: asked) else { return 0 }
        do {
            return try release(but: asked)
        } catch {
            updateWithheld { $0.kept = before }
            throw error
        }
    }

    /// A document that was evicted since was asked for, and came, without what was withheld of it; and the
    /// server sends nobody his own writes.
    private func wantWhatIsGone(of operation: Operation, _ database: Database) throws {
        var collections = Collections()
        for change in operation.changes where isSubscribed(change.collection) {
            let table = try collections.number(of: change.collection, database)
            let state = try table.flatMap { try DocumentRows.state($0, change.id, database) }
            let vector = try state?.withUnsafeBytes { try DocumentReader($0).vector() }
            // (A write that only seeds leaves no stamp: its document is asked for once too often.)
            if vector.map({ $0.covers(operation.stamp) }) ?? false { continue }
            try Wanted.note(DocumentKey(collection: change.collection, id: change.id), database)
        }
    }

    /// Lets subscriptions list again what they hold. A copy of this store may have sent the withheld writes,
    /// and the stream may have passed them: then nobody tells the outcome for their documents.
    private func forgetPlaces(in collections: Set<CollectionName>, _ database: Database) throws {
        let others = liveQueries.filter { !collections.contains($0.collection) }
        // Not forgotten: who has a cursor is told where the right to read has ended. (An application may
        // subscribe later than it starts to sync.)
        try Cursors.distrustAll(but: others.map(\.canonicalKey), database)
        try Staged.discardAll(but: others.map(\.canonicalKey), database)
    }

    private func release(but asked: Set<CollectionName>) throws -> Int {
        try committing { database, state in
            var count = 0
            let released = try Withheld.collections(database).subtracting(asked)
            for collection in released.sorted() {
                for (_, bytes) in try Withheld.operations(of: collection, database) {
                    // Documents show them already; only what `.wait` waits for moves. (A repair relies on an
                    // actor's operations standing in the order of their sequences.)
                    state.advance()
                    let operation = try Operation(decoding: bytes)
                    try OwnOperations.insert(operation, bytes, position: state.head, database)
                    try wantWhatIsGone(of: operation, database)
                    count += 1
                }
                try Withheld.remove(collection, database)
            }
            if count > 0 { try forgetPlaces(in: released, database) }
            // Within the writer's access: a write that comes next is judged by what is kept now.
            let kept = try Withheld.collections(database)
            updateWithheld { $0.kept = kept }
            if kept.isEmpty { try Seen.payBack(database) }
            guard count > 0 else { return (0, nil) }
            let commit = Commit(
                number: state.head, documents: [], actor: nil, wanted: [], isWithheld: true)
            return (count, commit)
        }
    }
}
