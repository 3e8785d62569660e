import CRDT
import GRDB
import Synchronization

/// Notes of the void stamps of documents, because a server has refused them (decision 0083). A document that
/// holds one of those is *quarantined*: it is shown, but neither told nor merged, until a clean state takes
/// its place.
///
/// Only a store that has a feed keeps notes. Bounds: `ReplicaLimits.notes` and `removalPatience`.
enum Notes {
    struct Note {
        /// The stamps that are void, and who has said so.
        var words = VoidNote()

        /// All stamps are void that are later than their actor's time here.
        var void: VersionVector { words.times }
    }

    static func row(_ key: DocumentKey, _ database: Database) throws -> Note? {
        let statement = try RawStatement(
            cached: "SELECT void FROM note WHERE collection = ? AND id = ?", database, key)
        guard try statement.step() else { return nil }
        return Note(words: try VoidNote(decoding: statement.bytes(0)))
    }

    /// Void stamps of a document, as links are told them; nil for none.
    static func void(_ key: DocumentKey, _ database: Database) throws -> VersionVector? {
        guard try holdsAny(database), let told = try row(key, database)?.words.told, !told.isEmpty else {
            return nil
        }
        return told
    }

    /// Returns whether a document holds a void stamp in this state.
    static func isQuarantined(
        _ key: DocumentKey, _ state: EncodedState?, _ database: Database
    ) throws -> Bool {
        guard let state, let void = try void(key, database) else { return false }
        return try state.withUnsafeBytes { try DocumentReader($0).vector() }.isQuarantined(by: void)
    }

    /// Returns whether anything of any document is void.
    static func holdsAny(_ database: Database) throws -> Bool {
        try RawStatement(cached: "SELECT 1 FROM note LIMIT 1", database).hasRow()
    }

    static func put(
        _ key: DocumentKey, void: VoidNote, position: UInt64, came milliseconds: UInt64,
        _ database: Database
    ) throws {
        guard !void.isEmpty else { return try remove(key, database) }
        try database.run(
            """
            INSERT OR REPLACE INTO note (collection, id, position, came, void) VALUES (?, ?, ?, ?, ?)
            """, key, position, milliseconds, void.encoded())
    }

    /// A document is evicted, and its note with it.
    static func remove(_ key: DocumentKey, _ database: Database) throws {
        try database.run("DELETE FROM note WHERE collection = ? AND id = ?", key)
    }

    /// The same stamps are void, by the word of somebody else: links are told nothing.
    static func set(_ key: DocumentKey, void: VoidNote, _ database: Database) throws {
        guard !void.isEmpty else { return try remove(key, database) }
        try database.run("UPDATE note SET void = ? WHERE collection = ? AND id = ?", void.encoded(), key)
    }

    /// Notes of a collection that came after one commit and through another, in order, at most `limit`.
    static func after(
        _ position: UInt64, through last: UInt64, of collection: CollectionName, limit: Int,
        _ database: Database
    ) throws -> [(id: DocumentID, void: [UInt8], position: UInt64)] {
        let statement = try RawStatement(
            cached: """
                SELECT id, position, void FROM note
                WHERE collection = ?1 AND position > ?2 AND position <= ?3 ORDER BY position LIMIT ?4
                """, database, collection.text, position, last, Int64(limit))
        var found: [(id: DocumentID, void: [UInt8], position: UInt64)] = []
        while try statement.step() {
            let told = try VoidNote(decoding: statement.bytes(2)).told
            found.append(
                (
                    DocumentID(trusted: statement.bytes(0)), told.isEmpty ? [] : told.encoded(),
                    statement.bits(1)
                ))
        }
        return found
    }

    /// Ends notes that came before a moment, and the oldest beyond `limit`. A document that waits for a clean
    /// state goes on waiting.
    /// - Returns: the number of notes that went.
    static func expire(
        before milliseconds: UInt64, limit: Int = ReplicaLimits.notes, _ database: Database
    ) throws -> Int {
        let statement = try RawStatement(
            fresh: """
                SELECT collection, id, void FROM note WHERE came < ?1
                UNION SELECT collection, id, void FROM (
                    SELECT collection, id, void FROM note ORDER BY came DESC LIMIT -1 OFFSET ?2)
                """, database, milliseconds, Int64(limit))
        var ended: [DocumentKey] = []
        var collections = Collections()
        while try statement.step() {
            let key = statement.key(0)
            let state = try collections.number(of: key.collection, database).flatMap {
                try DocumentRows.state($0, key.id, database)
            }
            let held = try state?.withUnsafeBytes { try DocumentReader($0).vector() } ?? VersionVector()
            if try !held.isQuarantined(by: VoidNote(decoding: statement.bytes(2)).times) { ended.append(key) }
        }
        for key in ended { try remove(key, database) }
        return ended.count
    }
}

/// The notes that one transaction of a peer reads and writes.
struct NoteBook {
    private let database: Database
    private let recorder: ChangeRecorder?
    private let milliseconds: UInt64
    /// Nil for what no link brings.
    private let tellings: NoteTellings?
    /// Documents whose notes are told again with this commit.
    private(set) var toldAgain: Set<DocumentKey> = []
    /// True if the store has any note; nil until it matters.
    private var holdsAny: Bool?

    init(
        database: Database, recorder: ChangeRecorder?, milliseconds: UInt64, tellings: NoteTellings? = nil
    ) {
        self.database = database
        self.tellings = tellings
        self.recorder = recorder
        self.milliseconds = milliseconds
    }

    /// True in a store that tells links what is void.
    var isKept: Bool { recorder != nil }

    /// The note of a document.
    mutating func note(of key: DocumentKey) throws -> Notes.Note? {
        try areAny() ? try Notes.row(key, database) : nil
    }

    /// Returns whether any document of the store has a note.
    mutating func areAny() throws -> Bool {
        guard isKept else { return false }
        if holdsAny == nil { holdsAny = try Notes.holdsAny(database) }
        return holdsAny == true
    }

    /// Sets the void stamps of a document.
    /// - Returns: whether that was news.
    mutating func setVoid(_ key: DocumentKey, _ words: VoidNote, at position: UInt64) throws -> Bool {
        let known = try note(of: key) ?? Notes.Note()
        guard isKept, known.words != words else { return false }
        guard known.void != words.times else {
            try Notes.set(key, void: words, database)
            return false
        }
        try Notes.put(key, void: words, position: position, came: milliseconds, database)
        holdsAny = true
        recorder?.noteVoid(key, words.told)
        recorder?.replace(key)
        return true
    }

    /// A document holds nothing void any more: links are told again what is, now with what is left.
    mutating func tellVoidAgain(_ key: DocumentKey, at position: UInt64) throws {
        guard isKept, let known = try note(of: key), !known.words.told.isEmpty else { return }
        try Notes.put(key, void: known.words, position: position, came: milliseconds, database)
        recorder?.noteVoid(key, known.words.told)
        recorder?.replace(key)
    }

    /// Tells all links a note again, after one of them has shown something that the note calls void:
    /// that peer has not heard of it, or has taken an old copy from elsewhere since.
    /// - Returns: false if there is no note, or that link has been told too often.
    mutating func tellAgain(_ key: DocumentKey, at position: UInt64) throws -> Bool {
        guard isKept, let known = try note(of: key), tellings?.mayTell(key) ?? true else { return false }
        toldAgain.insert(key)
        try Notes.put(key, void: known.words, position: position, came: milliseconds, database)
        if !known.words.told.isEmpty { recorder?.noteVoid(key, known.words.told) }
        return true
    }
}

/// The notes that a link has made this store tell again, in one session. A peer that shows void stamps again
/// and again does not believe the note, or holds something itself that is void here: it is told a few times,
/// not without end (decision 0164). Bounds: `ReplicaLimits.tellings` and `toldDocuments`.
package final class NoteTellings: Sendable {
    private let counts = Mutex<[DocumentKey: Int]>([:])

    /// Nothing was told yet.
    package init() {}

    /// Returns whether a note may be told once more.
    func mayTell(_ key: DocumentKey) -> Bool {
        counts.withLock { counts in
            guard let count = counts[key] else { return counts.count < ReplicaLimits.toldDocuments }
            return count < ReplicaLimits.tellings
        }
    }

    /// Counts the notes that a commit has told again.
    func note(_ keys: Set<DocumentKey>) {
        guard !keys.isEmpty else { return }
        counts.withLock { counts in
            for key in keys { counts[key, default: 0] += 1 }
        }
    }
}
