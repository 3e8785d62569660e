import CRDT
import DQL
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Rows that are kept as they are stored")
struct ResultRowTests {
    private func kept(_ replica: Replica, _ statement: String) throws -> [KeptRow] {
        let prepared = try PreparedStatement(statement)
        var rows: [KeptRow] = []
        _ = try replica.read { transaction in
            try prepared.forEachResult(in: transaction) { row in
                rows.append(row.kept)
                return true
            }
        }
        return rows
    }

    @Test(
        "a kept row is the row that is handed out as a value, whatever made it",
        arguments: [
            "SELECT * FROM c", "SELECT * FROM c WHERE _id = 1", "SELECT * FROM c WHERE a > 0",
            "SELECT * FROM c WHERE a >= 1 AND a < 3 ORDER BY a DESC", "SELECT a FROM c",
            "SELECT RAW a FROM c",
            "SELECT DISTINCT * FROM c", "SELECT * FROM c ORDER BY b", "SELECT * FROM c LIMIT 1 OFFSET 1",
            "SELECT a, COUNT(*) AS n FROM c GROUP BY a", "EXPLAIN SELECT * FROM c",
            "SELECT * FROM COLLECTION c (a REGISTER)",
        ])
    func same(_ statement: String) throws {
        try withPeer { replica, _ in
            try replica.execute(
                """
                INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1, 'b': {'x': [1, 'y']}}),
                    ({'_id': 'two', 'a': 2.5}), ({'_id': [3], 'b': 'text', 'z': null})
                """)
            try replica.createIndex("a", on: "a")
            let wanted = try replica.read { try PreparedStatement(statement).rows(in: $0) }
            let rows = try kept(replica, statement)
            try replica.execute("DELETE FROM c")
            #expect(try rows.map { try $0.value } == wanted)
            for (row, value) in zip(rows, wanted) {
                for name in ["_id", "a", "b", "z", "none"] { #expect(try row.field(name) == value[name]) }
            }
        }
    }
}
