import CRDT
import DQL
import Foundation
import OperationLog
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "Indexes of a projection in PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), .timeLimit(.minutes(3)))
struct IndexBuildTests {
    static func define(
        _ name: String, _ paths: [String], of collection: CollectionName = "c",
        on projection: PostgresProjection, _ bench: ProjectionBench, isDescending: Bool = false
    ) async throws {
        let keys = paths.map { path in
            IndexDescription.Key(
                path: path.split(separator: ".").map(String.init), isDescending: isDescending)
        }
        let index = IndexDescription(name: name, collection: collection, keys: keys)
        let form = DefinedIndexes.fields(of: index)["keys"] ?? .null
        try await bench.execute(
            "INSERT INTO defined DOCUMENTS ({'_id': :id, 'keys': :keys})",
            ["id": [.string(collection.text), .string(name)], "keys": form], on: projection)
    }

    /// Waits until readers may use so many indexes.
    static func settle(_ count: Int, _ projection: PostgresProjection) async throws {
        while try await projection.read({ try $0.indexes().filter(\.isReady).count }) != count {
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    private static func plan(_ statement: String, _ bench: ProjectionBench, _ projection: PostgresProjection)
        async throws -> String
    {
        try await bench.rows("EXPLAIN " + statement, on: projection).joined()
    }

    /// Each column's keys are those of the documents; texts tell what is wrong.
    static func faults(_ projection: PostgresProjection) async throws -> [String] {
        try await projection.read { try faults(in: $0) }
    }

    static func faults(in snapshot: ProjectionSnapshot) throws -> [String] {
        var faults: [String] = []
        for index in try snapshot.indexes() where index.isReady {
            guard let column = try snapshot.keyColumn(of: index),
                let table = try snapshot.table(index.collection)
            else { continue }
            let key = KeyIndex(0, column: column.number, index)
            let rows = try snapshot.connection.query(
                "SELECT live, state, coalesce(k\(column.number), '') FROM \(table)")
            for row in 0..<rows.count {
                let entry = rows.bool(row, 0) ? try key.entry(of: DocumentReader(rows.raw(row, 1))) : nil
                if entry?.key ?? [] != rows.bytes(row, 2) { faults.append("\(index.name) row \(row)") }
                if let entry, key.loss(by: entry) != nil { faults.append("\(index.name) says too much") }
            }
            let live = try snapshot.connection.query("SELECT count(*) FROM \(table) WHERE live")
            if try snapshot.count(of: index.collection) != Int(live.int8(0, 0)) {
                faults.append("\(index.collection) is counted wrongly")
            }
        }
        return faults
    }

    @Test("an index gets the keys of old and new documents, and statements of all kinds use it")
    func builtAndUsed() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let documents = (0..<300).map { number -> Value in
                    ["_id": .int(Int64(number)), "a": .int(Int64(number % 50)), "b": .string("t\(number)")]
                }
                try await bench.execute(
                    "INSERT INTO c DOCUMENTS (:d)", ["d": .array(documents)], on: projection)
                try await Self.define("by_a", ["a"], on: projection, bench)
                try await Self.define("by_b", ["b", "a"], on: projection, bench, isDescending: true)
                try await Self.settle(2, projection)
                for number in 300..<320 {
                    try await bench.execute(
                        "INSERT INTO c DOCUMENTS ({'_id': \(number), 'a': \(number % 50), 'b': 'new'})",
                        on: projection)
                }
                try await bench.execute("UPDATE c SET a = 7 WHERE _id = 5", on: projection)
                try await bench.execute("DELETE FROM c WHERE _id = 57", on: projection)
                #expect(try await Self.faults(projection) == [])
                for (statement, index) in [
                    ("SELECT _id FROM c WHERE a = 7", "by_a"),
                    ("SELECT _id FROM c WHERE a = 7 AND b LIKE 't%'", "by_"),
                    ("SELECT _id FROM c WHERE a > 47 OR b = 'new'", "by_"),
                    ("SELECT _id, a FROM c ORDER BY a DESC LIMIT 7", "by_a"),
                    ("SELECT _id, a FROM c WHERE a >= 3 ORDER BY a LIMIT 20", "by_a"),
                    ("SELECT COUNT(*) AS n FROM c WHERE a BETWEEN 3 AND 9", "by_a"),
                    ("SELECT a, COUNT(*) AS n, MAX(a) AS m FROM c GROUP BY a", "by_a"),
                    ("SELECT a, COUNT(*) AS n FROM c GROUP BY a ORDER BY a DESC", "by_a"),
                    ("SELECT DISTINCT a FROM c", "by_a"),
                    ("SELECT MIN(a) AS l, MAX(a) AS m, COUNT(*) AS n FROM c", "by_a"),
                    ("SELECT b, a FROM c ORDER BY b DESC, a DESC LIMIT 5", "by_b"),
                    ("SELECT b FROM c USE INDEX 'by_b' WHERE b LIKE 't1%'", "by_b"),
                ] {
                    let plan = try await Self.plan(statement, bench, projection)
                    #expect(plan.contains(index), "\(statement): \(plan)")
                    let naked = statement.replacing(" USE INDEX 'by_b'", with: "")
                        .replacing("FROM c", with: "FROM c USE INDEX ''")
                    let given = try await bench.rows(statement, on: projection)
                    #expect(given == (try await bench.rows(naked, on: projection)), "\(statement)")
                    #expect(!given.isEmpty)
                }
                #expect(
                    try await Self.plan("SELECT COUNT(*) FROM c", bench, projection).contains("countScan"))
                #expect(try await bench.rows("SELECT RAW COUNT(*) FROM c", on: projection) == ["319"])
            }
        }
    }

    @Test("answers that were few and become many, and few again, on one connection")
    func fewAndMany() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let documents = (0..<200).map { ["_id": .int($0), "a": .int($0 % 100)] as Value }
                try await bench.execute(
                    "INSERT INTO c DOCUMENTS (:d)", ["d": .array(documents)], on: projection)
                try await Self.define("by_a", ["a"], on: projection, bench)
                try await Self.settle(1, projection)
                let connection = try Connection(url: bench.url)
                func rows(_ statement: String) throws -> [String] {
                    let prepared = try PreparedStatement(statement)
                    return try ProjectionSnapshot.run(of: ProjectionBench.database, on: connection) {
                        try prepared.rows(in: $0).map { JSONText.print($0) }
                    }
                }
                let (filter, order) = (
                    "SELECT RAW _id FROM c WHERE a = 7 AND _id >= 0", "SELECT RAW _id FROM c ORDER BY a"
                )
                let sorted = (0..<100).flatMap { ["\($0)", "\($0 + 100)"] }
                for _ in 0..<2 { #expect(try rows(filter) == ["7", "107"]) }
                #expect(connection.fewRows.count == 1)
                #expect(try rows(order) == sorted && rows(order + " LIMIT 3") == Array(sorted.prefix(3)))
                try await bench.execute("UPDATE c SET a = 7", on: projection)
                for _ in 0..<2 { #expect(try rows(filter) == (0..<200).map { "\($0)" }) }
                #expect(connection.fewRows.count == 0)
                #expect(try rows(order) == (0..<200).map { "\($0)" })
                try await bench.execute("UPDATE c SET a = 8 WHERE _id > 63", on: projection)
                for _ in 0..<3 { #expect(try rows(filter) == (0..<64).map { "\($0)" }) }
                try await bench.execute("UPDATE c SET a = 8 WHERE _id > 2", on: projection)
                for _ in 1..<PostgresLimits.fewAnswers { #expect(try rows(filter) == ["0", "1", "2"]) }
                #expect(connection.fewRows.count == 0)
                for _ in 0..<2 { #expect(try rows(filter) == ["0", "1", "2"]) }
                #expect(connection.fewRows.count == 1)
            }
        }
    }

    @Test("texts of 3 KB and 9 KB are cut: the index finds them, and neither sorts nor covers any more")
    func longTexts() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await Self.define("by_t", ["t"], on: projection, bench)
                try await Self.settle(1, projection)
                let (three, nine) = (
                    String(repeating: "x", count: 3_000), String(repeating: "x", count: 9_000)
                )
                let texts = [three, nine, three + "a", nine + "b", "short"]
                for (number, text) in texts.enumerated() {
                    try await bench.execute(
                        "INSERT INTO c DOCUMENTS ({'_id': \(number), 't': :t})", ["t": .string(text)],
                        on: projection)
                }
                #expect(try await Self.faults(projection) == [])
                let order = "SELECT _id FROM c ORDER BY t LIMIT 5"
                #expect(
                    try await bench.rows(order, on: projection) == [4, 0, 2, 1, 3].map { "{\"_id\":\($0)}" })
                #expect(try await !Self.plan(order, bench, projection).contains("indexScan"))
                for (number, text) in texts.enumerated() {
                    let rows = try await bench.rows(
                        "SELECT RAW _id FROM c WHERE t = '\(text)'", on: projection)
                    #expect(rows == ["\(number)"])
                }
                let sixteen = (0..<16).map { "f\($0)" }
                try await Self.define("wide", sixteen, on: projection, bench)
                let long: [ObjectValue.Entry] = sixteen.map { (key: $0, value: .string(nine)) }
                try await bench.execute(
                    "INSERT INTO c DOCUMENTS (:d)",
                    ["d": .object(ObjectValue(long + [(key: "_id", value: 9)]))],
                    on: projection)
                try await Self.settle(2, projection)
                #expect(try await Self.faults(projection) == [])
                #expect(
                    try await bench.rows("SELECT RAW _id FROM c WHERE f0 = '\(nine)'", on: projection) == [
                        "9"
                    ])
            }
        }
    }

    @Test("a document that says less leaves no key behind, also not in a column whose index is gone")
    func droppedColumns() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 'secret'}), ({'_id': 2, 'a': 'other'})",
                    on: projection)
                try await Self.define("one", ["a"], on: projection, bench)
                try await Self.settle(1, projection)
                try await bench.execute("DELETE FROM defined WHERE _id = ['c', 'one']", on: projection)
                try await Self.settle(0, projection)
                try await bench.execute("DELETE FROM c WHERE _id = 1", on: projection)
                let columns = try bench.sql(
                    "SELECT k0 IS NULL FROM mimeo_g1.c1 ORDER BY live"
                ).map { $0 }
                #expect(columns.count == 2)
                let kept = try Connection(url: bench.url).query(
                    "SELECT count(*) FROM mimeo_g1.c1 WHERE NOT live AND k0 IS NOT NULL")
                #expect(kept.int8(0, 0) == 0)
                // The column is used again, for another field.
                try await Self.define("two", ["b"], on: projection, bench)
                try await Self.settle(1, projection)
                #expect(try await Self.faults(projection) == [])
            }
        }
    }

    @Test("a projection that is rebuilt has its indexes when readers get it")
    func rebuilt() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let documents = (0..<100).map { number -> Value in
                    ["_id": .int(number), "a": .int(number % 7)]
                }
                try await bench.execute(
                    "INSERT INTO c DOCUMENTS (:d)", ["d": .array(documents)], on: projection)
                try await Self.define("by_a", ["a"], on: projection, bench)
                try await Self.settle(1, projection)
                try await projection.rebuild()
                var generation = 1
                while generation == 1 {
                    let (number, ready) = try await projection.read { snapshot in
                        (Int(snapshot.generation), try snapshot.indexes().filter(\.isReady).count)
                    }
                    #expect(ready == 1)
                    generation = number
                    try await Task.sleep(for: .milliseconds(5))
                }
                #expect(try await Self.faults(projection) == [])
                #expect(
                    try await Self.plan("SELECT * FROM c WHERE a = 3", bench, projection).contains("by_a"))
            }
        }
    }

    @Test("an invalid index, keys that are half there: the next worker completes them")
    func interrupted() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let documents = (0..<900).map { number -> Value in
                    ["_id": .int(number), "a": .int(number % 9)]
                }
                try await bench.execute(
                    "INSERT INTO c DOCUMENTS (:d)", ["d": .array(documents)], on: projection)
                try await Self.define("by_a", ["a"], on: projection, bench)
                try await Self.settle(1, projection)
            }
            // As a process leaves it that is killed in the midst.
            let connection = try Connection(url: bench.url)
            try connection.run(
                """
                UPDATE mimeo_projection.indexes SET is_ready = false, is_filled = false, filled =
                    (SELECT id FROM mimeo_g1.c1 ORDER BY id OFFSET 300 LIMIT 1);
                UPDATE mimeo_g1.c1 SET k0 = NULL WHERE id > (SELECT filled FROM mimeo_projection.indexes);
                UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'mimeo_g1.c1_k0'::regclass
                """)
            try await bench.projecting { projection in
                try await Self.settle(1, projection)
                #expect(try await Self.faults(projection) == [])
                #expect(
                    try await bench.rows("SELECT RAW COUNT(*) FROM c WHERE a = 3", on: projection) == ["100"])
                #expect(
                    try bench.sql(
                        "SELECT indisvalid::text FROM pg_index WHERE indexrelid = 'mimeo_g1.c1_k0'::regclass")
                        == ["true"])
            }
        }
    }
}
