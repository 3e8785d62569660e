import CRDT
import DQL
import TestSupport
import Testing

@testable import Replica

@Suite("Groups, distinct values and extremes that an index answers")
struct IndexGroupTests {
    /// Values whose order by key is none of their documents' orders; some are equal and not alike.
    private static let values: [Value?] = [
        7, "b", 1.0, .null, nil, 1, -0.0, "a", true, 0, .double(.nan), [1], ["k": 1.0], 7.0, "b", nil, false,
        9_007_199_254_740_993, 9_007_199_254_740_992.0, .binary([2]), [1.0], "", 7,
    ]

    private func withDocuments(_ body: (PeerReplica) throws -> Void) throws {
        try withPeer { replica, _ in
            try replica.createIndex("one", on: "a")
            let falling = try PreparedStatement("CREATE INDEX falling ON c (d DESC)")
            try replica.change(try #require(falling.indexChange(SystemParameters())))
            try replica.createIndex("two", on: "a", "b")
            for (number, value) in Self.values.enumerated() {
                var fields = ObjectValue([(key: "_id", value: .int(Int64(number)))])
                if let value { fields["a"] = value }
                if let value { fields["d"] = value }
                fields["b"] = .int(Int64(number % 2))
                try replica.execute(
                    "INSERT INTO c DOCUMENTS (:all)", arguments(("all", .array([.object(fields)]))))
            }
            try replica.execute("UPDATE c SET a = 'late' WHERE _id = 3")
            try replica.execute("DELETE FROM c WHERE _id = 0")
            try body(replica)
        }
    }

    private func texts(_ replica: PeerReplica, _ statement: String, usesIndexes: Bool) throws -> [String] {
        var options = ExecutionOptions()
        options.usesIndexes = usesIndexes
        let prepared = try PreparedStatement(statement)
        return try replica.read { try prepared.rows(in: $0, options: options).map { JSONText.print($0) } }
    }

    @Test(
        "the rows and their order are those of a scan, and no document is read",
        arguments: [
            "SELECT a, COUNT(*) AS n FROM c GROUP BY a",
            "SELECT a, SUM(a) AS s, AVG(a) AS v FROM c GROUP BY a",
            "SELECT a, COUNT(*) AS n FROM c WHERE a > 0 GROUP BY a HAVING COUNT(*) > 1",
            "SELECT a, b, COUNT(*) AS n FROM c GROUP BY b, a", "SELECT DISTINCT a FROM c",
            "SELECT DISTINCT a FROM c WHERE a IS NOT MISSING ORDER BY a DESC LIMIT 4",
            "SELECT DISTINCT b, a FROM c", "SELECT MIN(a) AS x, MAX(a) AS y, COUNT(*) AS n FROM c",
            "SELECT MAX(d) AS y FROM c", "SELECT MIN(d) AS x FROM c",
            "SELECT MIN(a) AS x FROM c HAVING MIN(a) = 'nothing'",
        ])
    func fromTheIndex(statement: String) throws {
        try withDocuments { replica throws in
            #expect(try replica.rows("EXPLAIN \(statement)")[0].contains(#""covers":true"#))
            #expect(
                try texts(replica, statement, usesIndexes: true)
                    == texts(replica, statement, usesIndexes: false))
        }
    }

    @Test(
        "where an index does not tell which document is first, documents are read",
        arguments: [
            "SELECT b, COUNT(*) AS n FROM c GROUP BY b", "SELECT a, MIN(b) AS m FROM c GROUP BY a",
            "SELECT MIN(a) AS x FROM c USE INDEX ''", "SELECT MIN(b) AS x FROM c",
            "SELECT MIN(a) AS x, MIN(b) AS y FROM c", "SELECT DISTINCT a, d FROM c",
        ])
    func fromDocuments(statement: String) throws {
        try withDocuments { replica throws in
            #expect(try !replica.rows("EXPLAIN \(statement)")[0].contains(#""covers":true"#))
            #expect(
                try texts(replica, statement, usesIndexes: true)
                    == texts(replica, statement, usesIndexes: false))
        }
    }

    @Test("an index with a key that was cut gives no extremes, and one of an empty collection gives none")
    func cut() throws {
        try withPeer { replica, _ in
            try replica.createIndex("one", on: "a")
            let statement = "SELECT MAX(a) AS y, COUNT(*) AS n FROM c"
            #expect(try texts(replica, statement, usesIndexes: true) == [#"{"n":0}"#])
            let long = String(repeating: "k", count: 2_000)
            for (id, text) in [(1, long + "b"), (2, long + "c"), (3, long + "a")] {
                try replica.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': :n, 'a': :v})",
                    arguments(("n", .int(Int64(id))), ("v", .string(text))))
            }
            #expect(try !replica.rows("EXPLAIN \(statement)")[0].contains(#""covers":true"#))
            #expect(
                try texts(replica, statement, usesIndexes: true)
                    == texts(replica, statement, usesIndexes: false))
        }
    }
}
