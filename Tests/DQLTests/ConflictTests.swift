import CRDT
import DQL
import Testing

@Suite("Concurrent values")
struct ConflictTests {
    /// A store with one document that two actors wrote without seeing each other.
    private struct Merged: DocumentSource {
        let document: Document

        init() throws {
            var seed = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(1)))
            seed.create()
            try seed.set(["color"], "red")
            try seed.set(["size"], 1)
            var left = DocumentEditor(document: seed.document, stamp: Stamp(time: 2, actor: ActorID(1)))
            try left.set(["color"], "green")
            try left.set(["m", "x"], 1)
            var right = DocumentEditor(document: seed.document, stamp: Stamp(time: 3, actor: ActorID(2)))
            try right.set(["color"], "blue")
            try right.set(["m", "x"], 2)
            var document = left.document
            document.merge(right.document)
            self.document = document
        }

        func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
            try document.encoded().withUnsafeBytes { bytes in
                _ = try visit(DocumentRecord(id: try DocumentID(1), document: try DocumentReader(bytes)))
            }
        }

        func lookup(_ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void)
            throws
        {
            try scan(collection) { record in
                try visit(record)
                return false
            }
        }
    }

    private func rows(_ statement: String, strict: Bool = false) throws -> [Value] {
        try StatementCompiler.compile(statement).rows(
            in: Merged(), options: ExecutionOptions(strictMode: strict))
    }

    @Test("conflicts gives what nobody has chosen from, greatest first; the field shows the first")
    func values() throws {
        #expect(try rows("SELECT RAW conflicts(color) FROM c") == [["blue", "green"]])
        #expect(try rows("SELECT RAW color FROM c") == ["blue"])
        #expect(try rows("SELECT RAW conflicts(c.m.x) FROM c") == [[2, 1]])
        #expect(try rows("SELECT RAW conflicts(size) FROM c") == [[1]])
        #expect(try rows("SELECT RAW conflicts(color) FROM c", strict: true) == [["blue", "green"]])
    }

    @Test("conflicts in a condition finds what somebody has to choose")
    func condition() throws {
        #expect(try rows("SELECT RAW _id FROM c WHERE array_length(conflicts(color)) > 1") == [1])
        #expect(try rows("SELECT RAW _id FROM c WHERE array_length(conflicts(size)) > 1") == [])
        #expect(
            try rows("SELECT RAW _id FROM c WHERE ANY v IN conflicts(color) SATISFIES v = 'green' END") == [1]
        )
    }
}
