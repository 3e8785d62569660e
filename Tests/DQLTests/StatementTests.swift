import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Prepared statements")
struct StatementTests {
    @Test("a statement tells what it does, touches and needs")
    func metadata() throws {
        let update = try StatementCompiler.compile("UPDATE c SET a = :x WHERE b = :y AND c = :x")
        #expect(update.kind == .update)
        #expect(!update.isReadOnly)
        #expect(update.collectionsRead == ["c"])
        #expect(update.collectionsWritten == ["c"])
        #expect(update.collections == ["c"])
        #expect(Set(update.parameterNames) == ["x", "y"])
        let insert = try StatementCompiler.compile("INSERT INTO c DOCUMENTS (:d)")
        #expect(insert.collectionsRead.isEmpty)
        #expect(insert.collectionsWritten == ["c"])
        let select = try StatementCompiler.compile("SELECT * FROM system:dual")
        #expect(select.isReadOnly)
        #expect(select.collectionsRead == ["system:dual"])
        #expect(try StatementCompiler.compile("EVICT FROM c").kind == .evict)
        #expect(try StatementCompiler.compile("TOMBSTONE FROM c").kind == .delete)
    }

    @Test("one prepared statement serves different arguments")
    func reuse() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 'x'}), ({'_id': 2, 'a': 'y'})")
        let statement = try StatementCompiler.compile("SELECT RAW _id FROM c WHERE a = :a")
        #expect(try statement.rows(in: store, arguments: ["a": "x"]) == [1])
        #expect(try statement.rows(in: store, arguments: ["a": "y"]) == [2])
    }

    @Test("a row handler that returns false ends the statement")
    func streaming() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2}), ({'_id': 3})")
        var seen = 0
        try StatementCompiler.compile("SELECT * FROM c").forEachRow(in: store) { _ in
            seen += 1
            return seen < 2
        }
        #expect(seen == 2)
    }

    @Test("rows keep the order of their projection, whole documents put the id first")
    func columnOrder() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'b': 2, 'Z': 3})")
        let whole = try store.rows("SELECT * FROM c").first?.objectValue?.entries.map(\.key)
        #expect(whole == ["_id", "Z", "b"])
        let some = try store.rows("SELECT b, _id, Z FROM c").first?.objectValue?.entries.map(\.key)
        #expect(some == ["b", "_id", "Z"])
    }

    @Test("a condition on the id reads only that document")
    func idLookup() throws {
        let store = CountingStore()
        let statements = [
            "SELECT * FROM c WHERE _id = 'k'", "SELECT * FROM c WHERE a = 1 AND :id = _id",
            "SELECT * FROM c WHERE _id IN ('k', 'l2', 'x')", "SELECT * FROM c WHERE c._id IN :ids",
        ]
        for statement in statements {
            _ = try StatementCompiler.compile(statement).rows(
                in: store, arguments: ["id": "k", "ids": ["k", "l2"]])
        }
        #expect(store.scans == 0)
        #expect(store.lookups == 1 + 1 + 3 + 2)
        // A number may be of the wrong type: the first documents are looked at.
        _ = try StatementCompiler.compile("SELECT * FROM c WHERE _id IN (5, 2.0)").rows(in: store)
        #expect(store.scans == 1)
        // The second scan looks at the types of `a`, because no document was found.
        _ = try StatementCompiler.compile("SELECT * FROM c WHERE _id = 5 OR a = 1").rows(in: store)
        #expect(store.scans == 3)
    }
}

/// A store without documents that counts its calls.
private final class CountingStore: DocumentSource {
    private(set) var scans = 0
    private(set) var lookups = 0

    func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws { scans += 1 }

    func lookup(_ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void)
        throws
    {
        lookups += 1
    }
}
