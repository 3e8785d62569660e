import CRDT
import DQL
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Rows that are kept as they are stored")
struct ResultRowTests {
    private func kept(_ replica: PeerReplica, _ statement: String) throws -> [KeptRow] {
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

    @Test(
        "rows that are kept together stay what they are, also when others are let go",
        arguments: [false, true])
    func together(isIndexed: Bool) throws {
        // From a few bytes to more than what is allocated at once.
        let lengths = (0..<120).map { $0 * $0 * 7 % 5_003 } + [20_000, 3, 40_000, 0, 16_384]
        try withPeer { replica, _ in
            try replica.insert(0..<lengths.count) { number in
                [
                    "a": .int(Int64(number)),
                    "t": .string(String(repeating: "\(number % 10)", count: lengths[number])),
                ]
            }
            if isIndexed { try replica.createIndex("a", on: "a") }
            var rows = try kept(replica, "SELECT * FROM c WHERE a >= 0 ORDER BY a").map { Optional($0) }
            #expect(rows.count == lengths.count)
            for number in rows.indices where number % 3 > 0 { rows[number] = nil }
            try replica.execute("DELETE FROM c")
            for number in rows.indices where number % 3 == 0 {
                let row = try #require(rows[number])
                #expect(try row.field("_id") == .int(Int64(number)))
                #expect(try row.field("a") == .int(Int64(number)))
                #expect(
                    try row.field("t") == .string(String(repeating: "\(number % 10)", count: lengths[number]))
                )
                #expect(row.withDocument { id, _ in id.count > 0 } == true)
            }
        }
    }
}
