import CRDT
import DQL
import Exchange
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

/// Stores that version 0.2.0 or a later one has written, byte for byte, with what this module alone says of
/// them. (What an application sees of them is in DittoSwiftTests.) A format that is released adds a folder
/// and takes none away.
///
/// `store-11`: twenty documents of a kilobyte in one operation, which refers to them; others that were
/// written, changed, counted in, deleted and evicted; an index, and one whose keys are cut; two more
/// documents, one of them evicted, and a server's cursor; a link with another small peer, and a document of
/// each at the other; a void stamp of one document. `store-11-links` is the same before the void stamp, with
/// the cursors at the other's feed. `store-12` and `store-12-links` are what format 12 makes of them. Builds
/// before 0.2.0 wrote both in earlier formats, and the last of them opened them.
@Suite("Stores of earlier versions, from within")
struct KeptStoreTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Fixtures")

    private func uploads(_ replica: PeerReplica) throws -> [[UInt8]] {
        try replica.ownActors().flatMap { actor in
            try replica.ownOperations(of: actor.actor, after: actor.acknowledged, maxBytes: .max).map(\.bytes)
        }
    }

    private func referring(_ replica: PeerReplica) throws -> Int64 {
        try replica.read { transaction in
            let statement = try RawStatement(
                fresh: "SELECT COUNT(*) FROM operation WHERE refers IS NOT NULL", transaction.database)
            return try statement.step() ? statement.int(0) : -1
        }
    }

    /// The operations of a store, as they were when it was written: a length and a checksum a line.
    private func wanted(_ name: String) throws -> [String] {
        try String(contentsOf: Self.folder.appendingPathComponent("\(name).operations"), encoding: .utf8)
            .split(separator: "\n").map(String.init)
    }

    private func described(_ operations: [[UInt8]]) -> [String] {
        operations.map { "\($0.count) \(String(hash64($0), radix: 16))" }
    }

    @Test(
        "operations that refer to documents are uploaded as what they were, before one changes and after",
        arguments: ["store-11", "store-11-links", "store-12", "store-12-links"])
    func uploads(name: String) throws {
        try withTemporaryDirectory { directory in
            let copy = directory.appendingPathComponent("store")
            try FileManager.default.copyItem(at: Self.folder.appendingPathComponent(name), to: copy)
            let replica = try open(copy, TestEnvironment(seed: 10))
            let wanted = try wanted(name)
            #expect(try referring(replica) == 1)
            #expect(try described(uploads(replica)) == wanted)
            #expect(try replica.indexFaults() == [])
            #expect(
                try replica.rows("SELECT _id FROM c WHERE m.n >= 18 ORDER BY m.n")
                    == [#"{"_id":18}"#, #"{"_id":19}"#, #"{"_id":20}"#])
            #expect(try replica.rows("SELECT COUNT(*) AS n FROM c WHERE t LIKE 'xxx%'") == [#"{"n":20}"#])
            #expect(
                try replica.rows("SELECT * FROM d") == [#"{"_id":"a","color":"blue","visits":3}"#])
            try replica.execute("UPDATE c SET m.n = 100 WHERE _id = 7")
            #expect(try referring(replica) == 0)
            #expect(try described(Array(uploads(replica).prefix(wanted.count))) == wanted)
            #expect(try replica.indexFaults() == [])
            try replica.close()
        }
    }

    @Test("a store of format 11 keeps its cursors at another's feed, and notes what is void from now on")
    func links() throws {
        try withTemporaryDirectory { directory in
            let copy = directory.appendingPathComponent("store")
            try FileManager.default.copyItem(
                at: Self.folder.appendingPathComponent("store-11-links"), to: copy)
            let replica = try open(copy, TestEnvironment(seed: 10))
            #expect(
                try replica.rows("SELECT * FROM l ORDER BY _id")
                    == [#"{"_id":1,"from":"b"}"#, #"{"_id":2,"from":"a"}"#])
            let bytes: [UInt8] = [
                0x52, 0x93, 0x8A, 0xB7, 0xD5, 0x38, 0x1C, 0x30,
                0xCF, 0xC4, 0x03, 0x05, 0xDD, 0xD9, 0x07, 0x0A,
            ]
            let feed = try #require(LogID(bytes: bytes))
            let query = try SubscriptionQuery(statement: "SELECT * FROM l")
            #expect(try replica.feed.linkCursor(of: query.canonicalKey, at: feed)?.position.offset == 3)
            _ = try replica.feed.begin(hasServer: true)
            let key = DocumentKey(collection: "l", id: try DocumentID(.int(1)))
            let void = VersionVector([.init(actor: ActorID(7), time: 1)])
            try replica.store.committing { database, _ in
                try Notes.put(key, void: VoidNote(void), position: 10, came: 1, database)
            }
            let found = try replica.read { transaction in
                try transaction.withDatabase { try Notes.void(key, $0) }
            }
            #expect(found == void)
            try replica.close()
        }
    }

    @Test("a store of format 11 knows what is void, and its cursors")
    func void() throws {
        try withTemporaryDirectory { directory in
            let copy = directory.appendingPathComponent("store")
            try FileManager.default.copyItem(at: Self.folder.appendingPathComponent("store-11"), to: copy)
            let replica = try open(copy, TestEnvironment(seed: 11))
            let key = DocumentKey(collection: "l", id: try DocumentID(.int(1)))
            let found = try replica.read { transaction in
                try transaction.withDatabase { try Notes.void(key, $0) }
            }
            #expect(found == VersionVector([.init(actor: ActorID(7), time: 1)]))
            #expect(try replica.rows("SELECT COUNT(*) AS n FROM l") == [#"{"n":2}"#])
            try replica.close()
        }
    }

    @Test(
        "documents with a note of what was gone are forgotten whole with format 12, and void stamps are kept")
    func notesOfFormat11() throws {
        try withTemporaryDirectory { folder in
            let environment = TestEnvironment(seed: 12)
            var replica = try open(folder, environment)
            for id in 1...3 { try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})") }
            let (cut, void) = (try key("c", 1), try key("c", 2))
            let gone = VersionVector([.init(actor: ActorID(7), time: 5)])
            let stamps = VersionVector([.init(actor: ActorID(8), time: 6)])
            try replica.store.committing { database, _ in
                try Self.writeNotesOfFormat11(database)
                for (key, vector, words) in [(cut, gone, nil), (void, VersionVector(), VoidNote(stamps))] {
                    let statement = try RawStatement(
                        cached: "INSERT INTO note VALUES (?, ?, ?, 1, 2, ?)", database)
                    statement.bind(1, key.collection.text)
                    statement.bind(2, key.id.bytes)
                    statement.bind(3, vector.encoded())
                    if let words { statement.bind(4, words.encoded()) }
                    try statement.run()
                }
                try Cursors.advance([1], to: TestLog().position(3), replaces: true, rights: [], database)
            }
            let (actor, sent) = (replica.actor, try uploads(replica))
            try replica.close()
            replica = try open(folder, environment)
            #expect(try replica.rows("SELECT _id FROM c ORDER BY _id") == [#"{"_id":2}"#, #"{"_id":3}"#])
            #expect(try uploads(replica) == sent, "what it wrote is uploaded still")
            #expect(try replica.cursor(of: [1]) == nil, "everything is asked for again")
            let found = try replica.read { try $0.withDatabase { try Notes.void(void, $0) } }
            #expect(found == stamps)
            #expect(replica.actor == actor)
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(replica.actor != actor)
            try replica.close()
        }
    }

    private static func writeNotesOfFormat11(_ database: Database) throws {
        try database.execute(
            sql: """
                DROP TABLE note;
                CREATE TABLE note (
                    collection TEXT NOT NULL, id BLOB NOT NULL, vector BLOB NOT NULL,
                    position INTEGER NOT NULL, came INTEGER NOT NULL, void BLOB,
                    PRIMARY KEY (collection, id)) WITHOUT ROWID;
                CREATE INDEX note_at ON note (collection, position);
                CREATE INDEX note_came ON note (came);
                CREATE INDEX note_void ON note (collection, id) WHERE void IS NOT NULL;
                PRAGMA user_version = 11;
                """)
    }
}
