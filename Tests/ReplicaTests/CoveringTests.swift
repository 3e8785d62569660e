import CRDT
import DQL
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

@Suite("Statements that an index answers alone")
struct CoveringTests {
    /// The rows as text, in which the order of keys shows, and whether an index covered the statement.
    private func texts(_ replica: PeerReplica, _ statement: String, usesIndexes: Bool) throws -> [String] {
        var options = ExecutionOptions()
        options.usesIndexes = usesIndexes
        let prepared = try PreparedStatement(statement)
        return try replica.read { try prepared.rows(in: $0, options: options).map { JSONText.print($0) } }
    }

    private func expectCovered(_ replica: PeerReplica, _ statement: String) throws {
        #expect(try replica.rows("EXPLAIN \(statement)")[0].contains(#""covers":true"#))
        #expect(
            try texts(replica, statement, usesIndexes: true)
                == texts(replica, statement, usesIndexes: false))
    }

    @Test("values come exactly as a document has them: floats, the order of keys, the depth")
    func exact() throws {
        try withPeer { replica, _ in
            try replica.createIndex("a", on: "a", "b")
            var deep = Value.double(1)
            for _ in 1..<CRDT.Limits.nestingDepth { deep = .array([deep]) }
            let values: [Value] = [
                1, 1.0, -0.0, 9_007_199_254_740_993, 9_007_199_254_740_992.0, ["b": 1.0, "aa": 2],
                [["b": 1.0, "aa": ["z": 0.0, "yy": 1]]], .null, "text", .binary([1, 2]), deep,
            ]
            for (number, value) in values.enumerated() {
                try replica.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': :n, 'a': :v})",
                    arguments(("n", .int(Int64(number))), ("v", value)))
            }
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 'without'})")
            try expectCovered(replica, "SELECT a, b FROM c ORDER BY a, b")
            try expectCovered(replica, "SELECT RAW a FROM c ORDER BY a DESC, b DESC")
        }
    }

    @Test("an index that an earlier version has written answers too")
    func earlier() throws {
        try withPeer { replica, _ in
            try replica.createIndex("a", on: "a", "b")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1.0})")
            let held = CBOR.encode([[1.0], []])
            try replica.store.writing { database in
                try database.execute(sql: "UPDATE index_1 SET held = ?", arguments: [Data(held)])
            }
            try expectCovered(replica, "SELECT a, b FROM c ORDER BY a, b")
        }
    }

    @Test("values that are damaged are an error, not an answer", arguments: [[], [1, 2], [1, 1], [2, 0]])
    func damaged(_ held: [UInt8]) throws {
        try withPeer { replica, _ in
            try replica.createIndex("a", on: "a")
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1.0})")
            try replica.store.writing { database in
                try database.execute(sql: "UPDATE index_1 SET held = ?", arguments: [Data(held)])
            }
            #expect(throws: (any Error).self) { try replica.rows("SELECT a FROM c ORDER BY a") }
        }
    }
}
