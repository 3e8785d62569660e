import CRDT
import DQL
import Testing

@Suite("Documents that a statement names before it runs")
struct NamedDocumentTests {
    private static let arguments: ObjectValue = [
        "d": ["_id": "p", "n": 1], "many": .array((0..<3).map { ["_id": .int($0)] }),
        "all": .array((0..<9).map { ["_id": .int($0)] }), "id": "x", "text": "no document",
    ]

    @Test(
        arguments: [
            ("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 2})", [1]),
            ("INSERT INTO c DOCUMENTS ({'_id': :id}), (:d)", ["x", "p"]),
            ("INSERT INTO c DOCUMENTS (:many)", [0, 1, 2]),
            ("INSERT INTO c DOCUMENTS (:d) ON ID CONFLICT DO UPDATE", ["p"]),
            ("UPDATE c SET n = 1 WHERE _id = :id", ["x"]),
            ("UPDATE c SET n = 1 WHERE _id IN ['a', 'b'] AND n > 2", ["a", "b"]),
            ("DELETE FROM c WHERE _id = 7", [7]),
            // Without an id, of no document, too many, found by looking, of another kind, without argument.
            ("INSERT INTO c DOCUMENTS ({'n': 2})", []),
            ("INSERT INTO c DOCUMENTS (:text)", []),
            ("INSERT INTO c DOCUMENTS (:all)", []),
            ("INSERT INTO c DOCUMENTS ({'_id': UPPER(:id)})", []),
            ("INSERT INTO c SELECT * FROM d", []),
            ("UPDATE c SET n = 1 WHERE n = 1", []),
            ("SELECT * FROM c WHERE _id = 1", []),
            ("DELETE FROM c WHERE _id = :missing", []),
        ] as [(String, [Value])])
    func named(_ statement: String, _ ids: [Value]) throws {
        let keys = try PreparedStatement(statement).namedDocuments(Self.arguments)
        #expect(keys == (try ids.map { DocumentKey(collection: "c", id: try DocumentID($0)) }))
    }
}
