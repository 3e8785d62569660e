import CRDT
import GRDB

/// Notes of what is gone of a document and has left no entry in its vector: the server had reaped it
/// (decision 0100). Links are told, so that a neighbour's copy does not bring it back.
///
/// A note is a vector. What it covers of a copy that comes is dropped, but for what the state here shows. A
/// note stands beside the document's row, or without one if nothing is left. Only a store that has a feed
/// keeps notes. Bounds: `ReplicaLimits.notes` and `notePatience`.
enum Notes {
    static func find(_ key: DocumentKey, _ database: Database) throws -> VersionVector? {
        let statement = try RawStatement(
            cached: "SELECT vector FROM note WHERE collection = ? AND id = ?", database)
        statement.bind(1, key.collection.text)
        statement.bind(2, key.id.bytes)
        return try statement.step() ? try VersionVector(decoding: statement.bytes(0)) : nil
    }

    static func holdsAny(_ database: Database) throws -> Bool {
        try RawStatement(cached: "SELECT 1 FROM note LIMIT 1", database).hasRow()
    }

    static func put(
        _ key: DocumentKey, _ vector: VersionVector, position: UInt64, came milliseconds: UInt64,
        _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: """
                INSERT OR REPLACE INTO note (collection, id, vector, position, came) VALUES (?, ?, ?, ?, ?)
                """, database)
        statement.bind(1, key.collection.text)
        statement.bind(2, key.id.bytes)
        statement.bind(3, vector.encoded())
        statement.bind(4, bits: position)
        statement.bind(5, bits: milliseconds)
        try statement.run()
    }

    /// A document is evicted, and its note with it.
    static func remove(_ key: DocumentKey, _ database: Database) throws {
        let statement = try RawStatement(
            cached: "DELETE FROM note WHERE collection = ? AND id = ?", database)
        statement.bind(1, key.collection.text)
        statement.bind(2, key.id.bytes)
        try statement.run()
    }

    /// Notes of a collection that came after one commit and through another, in order, at most `limit`.
    static func after(
        _ position: UInt64, through last: UInt64, of collection: CollectionName, limit: Int,
        _ database: Database
    ) throws -> [(id: DocumentID, vector: [UInt8], position: UInt64)] {
        let statement = try RawStatement(
            cached: """
                SELECT id, vector, position FROM note
                WHERE collection = ?1 AND position > ?2 AND position <= ?3 ORDER BY position LIMIT ?4
                """, database)
        statement.bind(1, collection.text)
        statement.bind(2, bits: position)
        statement.bind(3, bits: last)
        statement.bind(4, Int64(limit))
        var found: [(id: DocumentID, vector: [UInt8], position: UInt64)] = []
        while try statement.step() {
            found.append(
                (DocumentID(trusted: statement.bytes(0)), statement.bytes(1), statement.bits(2)))
        }
        return found
    }

    /// Ends notes that came before a moment, and the oldest beyond `limit`. An entry stays where the document
    /// has a later stamp of its actor, which would speak for what the note covers. The store's own actor does
    /// not write such a document again (rule 10).
    /// - Returns: the number of notes that went.
    static func expire(
        before milliseconds: UInt64, limit: Int = ReplicaLimits.notes, actor: ActorID, _ database: Database
    ) throws -> Int {
        let statement = try RawStatement(
            fresh: """
                SELECT collection, id, vector FROM note WHERE came < ?1
                UNION SELECT collection, id, vector FROM (
                    SELECT collection, id, vector FROM note ORDER BY came DESC LIMIT -1 OFFSET ?2)
                """, database)
        statement.bind(1, bits: milliseconds)
        statement.bind(2, Int64(limit))
        var ended: [(key: DocumentKey, left: VersionVector)] = []
        var collections = Collections()
        while try statement.step() {
            let key = DocumentKey(
                collection: CollectionName(statement.text(0)), id: DocumentID(trusted: statement.bytes(1)))
            let vector = try VersionVector(decoding: statement.bytes(2))
            let state = try collections.number(of: key.collection, database).flatMap {
                try DocumentRows.state($0, key.id, database)
            }
            let held = try state?.withUnsafeBytes { try DocumentReader($0).vector() } ?? VersionVector()
            let left = VersionVector(vector.entries.filter { held[$0.actor] ?? 0 > $0.time })
            guard left != vector else { continue }
            if vector[actor] != nil, left[actor] == nil { try Evicted.note(key, actor, database) }
            ended.append((key, left))
        }
        for item in ended {
            if item.left.isEmpty {
                try remove(item.key, database)
                continue
            }
            let update = try RawStatement(
                cached: "UPDATE note SET vector = ?3 WHERE collection = ?1 AND id = ?2", database)
            update.bind(1, item.key.collection.text)
            update.bind(2, item.key.id.bytes)
            update.bind(3, item.left.encoded())
            try update.run()
        }
        return ended.count { $0.left.isEmpty }
    }
}

/// The notes that one transaction of a peer reads and writes.
struct NoteBook {
    private let database: Database
    private let recorder: ChangeRecorder?
    private let milliseconds: UInt64
    /// True if the store has any note; nil until it matters.
    private var holdsAny: Bool?

    init(database: Database, recorder: ChangeRecorder?, milliseconds: UInt64) {
        self.database = database
        self.recorder = recorder
        self.milliseconds = milliseconds
    }

    /// True in a store that tells links what is gone.
    var isKept: Bool { recorder != nil }

    /// The note of a document.
    mutating func note(of key: DocumentKey) throws -> VersionVector? {
        guard isKept else { return nil }
        if holdsAny == nil { holdsAny = try Notes.holdsAny(database) }
        return holdsAny == true ? try Notes.find(key, database) : nil
    }

    /// Returns whether any document of the store has a note.
    mutating func areAny() throws -> Bool {
        guard isKept else { return false }
        if holdsAny == nil { holdsAny = try Notes.holdsAny(database) }
        return holdsAny == true
    }

    /// Joins what is gone of a document to its note.
    /// - Returns: whether that was news.
    mutating func join(_ key: DocumentKey, _ gone: VersionVector, at position: UInt64) throws -> Bool {
        let known = try note(of: key) ?? VersionVector()
        guard isKept, !known.covers(gone) else { return false }
        let joined = known.union(gone)
        try Notes.put(key, joined, position: position, came: milliseconds, database)
        holdsAny = true
        recorder?.noteGone(key, joined)
        return true
    }
}
