import CRDT
import DQL
import Testing

@testable import Postgres

@Suite(
    "Round trips of a projection",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct RoundTripTests {
    /// The round trips of a statement on a connection, from the beginning of its snapshot to the end.
    private static func trips(
        of statement: String, _ arguments: ObjectValue, on connection: Connection, rows: Int
    ) throws -> Int {
        let prepared = try PreparedStatement(statement)
        let before = connection.roundTrips
        let found = try ProjectionSnapshot.run(
            of: ProjectionBench.database, on: connection, fetching: prepared.soleDocument(arguments)
        ) { snapshot in
            try prepared.rows(in: snapshot, arguments: arguments)
        }
        #expect(found.count == rows, "\(statement)")
        return connection.roundTrips - before
    }

    @Test("a read by id takes one: the document comes with the snapshot, and nobody waits for the end")
    func reads() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                for id in 0..<5 {
                    try await bench.execute(
                        "INSERT INTO oaks DOCUMENTS ({'_id': 'oak-\(id)', 'height': \(id), 'tags': ['t']})",
                        on: projection)
                }
                let connection = try Connection(url: bench.url)
                let statements = [
                    ("SELECT * FROM oaks WHERE _id = :id", 1, 1),
                    ("SELECT * FROM oaks WHERE height = :n", 1, 1),
                    ("SELECT COUNT(*) AS n FROM oaks WHERE height > :n", 1, 2),
                    ("SELECT * FROM oaks ORDER BY height DESC LIMIT 2", 2, 2),
                ]
                let arguments: ObjectValue = ["id": "oak-3", "n": 2]
                // At first statements are prepared, and the table is looked up.
                for _ in 0..<3 {
                    for (text, rows, _) in statements {
                        _ = try Self.trips(of: text, arguments, on: connection, rows: rows)
                    }
                }
                for (text, rows, most) in statements {
                    #expect(
                        try Self.trips(of: text, arguments, on: connection, rows: rows) <= most, "\(text)")
                }
            }
        }
    }

    /// The round trips of drafts of statements on one snapshot, each on what those before it leave.
    private static func trips(ofDrafts statements: [String], on connection: Connection) throws -> Int {
        let prepared = try statements.map { try PreparedStatement($0) }
        let before = connection.roundTrips
        try ProjectionSnapshot.run(of: ProjectionBench.database, on: connection) { snapshot in
            try snapshot.expect(prepared.flatMap { $0.namedDocuments(ObjectValue()) })
            var chain = try snapshot.chain(as: ActorID(7), sequence: 1) { 1_000 }
            for statement in prepared {
                let link = try chain.add { _ in
                } _: { draft, _ in
                    try statement.execute(in: draft) { throw CancellationError() }
                }
                #expect(link.operation != nil, "\(statement.text)")
            }
        }
        return connection.roundTrips - before
    }

    @Test("drafts take one, however many documents their statements name")
    func drafts() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute("INSERT INTO oaks DOCUMENTS ({'_id': 1, 'n': 0})", on: projection)
                try await bench.execute("INSERT INTO oaks DOCUMENTS ({'_id': 'gone'})", on: projection)
                try await bench.execute("DELETE FROM oaks WHERE _id = 'gone'", on: projection)
                let connection = try Connection(url: bench.url)
                let statements = [
                    "INSERT INTO oaks DOCUMENTS ({'_id': 2, 'n': 1}), ({'_id': 3})",
                    "UPDATE oaks SET n = n + 1 WHERE _id = 1", "UPDATE oaks SET n = n + 1 WHERE _id = 2",
                    "INSERT INTO oaks DOCUMENTS ({'_id': 'gone'})", "DELETE FROM oaks WHERE _id = 3",
                    "INSERT INTO oaks DOCUMENTS ({'_id': 1, 'n': 5}) ON ID CONFLICT DO UPDATE",
                ]
                for _ in 0..<2 { _ = try Self.trips(ofDrafts: statements, on: connection) }
                #expect(try Self.trips(ofDrafts: statements, on: connection) == 1)
                #expect(try Self.trips(ofDrafts: [statements[1]], on: connection) == 1)
            }
        }
    }

    @Test("a large document that a statement names is read by itself, and nothing of it is lost")
    func large() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let text = String(repeating: "x", count: DQLLimits.pushedStateBytes)
                try await bench.execute(
                    "INSERT INTO oaks DOCUMENTS ({'_id': 1, 't': '\(text)'})", on: projection)
                let connection = try Connection(url: bench.url)
                let update = try PreparedStatement("UPDATE oaks SET n = 1 WHERE _id = 1 RETURNING *")
                let named = update.namedDocuments(ObjectValue())
                let rows = try ProjectionSnapshot.run(of: ProjectionBench.database, on: connection) {
                    snapshot in
                    try snapshot.expect(named)
                    let draft = try snapshot.draft(as: ActorID(7), sequence: 1, wallMilliseconds: 1_000)
                    return try update.execute(in: draft) { throw CancellationError() }.rows
                }
                #expect(named.count == 1 && rows == [["_id": 1, "t": .string(text), "n": 1]])
            }
        }
    }

    @Test("several processes of the server look for groups and for the first of an order; many groups too")
    func workers() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let count = 3 * PostgresLimits.firstPushedRows
                for part in 0..<3 {
                    let rows = (part * count / 3..<(part + 1) * count / 3)
                        .map { "({'_id': \($0), 'n': \($0), 'even': \($0 % 2 == 0)})" }
                    try await bench.execute(
                        "INSERT INTO oaks DOCUMENTS \(rows.joined(separator: ", "))", on: projection)
                }
                let connection = try Connection(url: bench.url)
                try connection.run(
                    """
                    SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;
                    SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2
                    """)
                func rows(_ text: String) throws -> [Value] {
                    let prepared = try PreparedStatement(text)
                    return try ProjectionSnapshot.run(
                        of: ProjectionBench.database, on: connection, fallsBack: false
                    ) { try prepared.rows(in: $0) }
                }
                let groups = "SELECT even, COUNT(*) AS c FROM oaks WHERE n >= 0 GROUP BY even"
                _ = try rows(groups)
                #expect(connection.workers == "2")
                for _ in 0..<3 {
                    #expect(try rows(groups).count == 2)
                    #expect(try rows("SELECT * FROM oaks WHERE n > 5 ORDER BY n DESC LIMIT 2").count == 2)
                    #expect(
                        try rows("SELECT n, COUNT(*) AS c FROM oaks WHERE n >= 0 GROUP BY n").count == count)
                    #expect(
                        try rows("SELECT n FROM oaks WHERE n >= 0 ORDER BY n DESC LIMIT \(count)").map(
                            \.["n"])
                            == (0..<count).reversed().map { .int(Int64($0)) })
                }
                // Other statements of the session go on without them.
                let after = try connection.query("SELECT current_setting('max_parallel_workers_per_gather')")
                #expect(after.text(0, 0) == "0")
            }
        }
    }

    @Test("a document that came with the snapshot is of that snapshot, also after a rebuild and a removal")
    func fetched() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute(
                    "INSERT INTO oaks DOCUMENTS ({'_id': 1, 'height': 12})", on: projection)
                let connection = try Connection(url: bench.url)
                let one = "SELECT * FROM oaks WHERE _id = 1"
                for _ in 0..<2 { _ = try Self.trips(of: one, ObjectValue(), on: connection, rows: 1) }
                #expect(try Self.trips(of: one, ObjectValue(), on: connection, rows: 1) == 1)
                // The table of the first build goes away, and with it what the connection knows.
                try await projection.rebuild()
                try await bench.execute("DELETE FROM oaks WHERE _id = 1", on: projection)
                let generation = "SELECT generation::text FROM mimeo_projection.databases"
                while try bench.sql(generation) == ["1"] { try await projection.advance() }
                let former = "SELECT to_regclass('mimeo_g1.c1') IS NULL"
                while try bench.sql("SELECT (\(former))::text") == ["false"] {
                    try await projection.advance()
                }
                _ = try Self.trips(of: one, ObjectValue(), on: connection, rows: 0)
                try await bench.execute("INSERT INTO oaks DOCUMENTS ({'_id': 1})", on: projection)
                for _ in 0..<2 { _ = try Self.trips(of: one, ObjectValue(), on: connection, rows: 1) }
                #expect(try Self.trips(of: one, ObjectValue(), on: connection, rows: 1) == 1)
            }
        }
    }

    @Test("an end that nobody waited for leaves no transaction behind, and a lost one is no one's failure")
    func left() async throws {
        try await ProjectionBench.run { bench in
            let connection = try Connection(url: bench.url)
            for _ in 0..<2 {
                try connection.run("BEGIN")
                try connection.leave()
                #expect(try connection.query("SELECT 1::int8").int8(0, 0) == 1)
                let open = "SELECT count(*)::text FROM pg_stat_activity WHERE state LIKE 'idle in %'"
                #expect(try bench.sql(open + " AND datname = current_database()") == ["0"])
            }
            // A failed one is rolled back at once.
            try connection.run("BEGIN")
            #expect(throws: PostgresError.self) { try connection.run("SELECT 1/0") }
            try connection.leave()
            try connection.leave()
            #expect(try connection.query("SELECT 1::int8").int8(0, 0) == 1)
            try connection.run("BEGIN")
            try connection.leave()
            try TestDatabase.endConnections(of: bench.url)
            let failure = #expect(throws: PostgresError.self) { try connection.run("SELECT 1") }
            #expect(failure?.isConnectionLost == true)
        }
    }

    @Test("a collection is found in the projection that readers use now, also after a rebuild")
    func knownTables() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute(
                    "INSERT INTO oaks DOCUMENTS ({'_id': 1, 'height': 12})", on: projection)
                let connection = try Connection(url: bench.url)
                let all = "SELECT * FROM oaks"
                _ = try Self.trips(of: all, ObjectValue(), on: connection, rows: 1)
                let former = connection.knownTables
                try await projection.rebuild()
                try await bench.execute(
                    "INSERT INTO oaks DOCUMENTS ({'_id': 2, 'height': 7})", on: projection)
                let generation = "SELECT generation::text FROM mimeo_projection.databases"
                while try bench.sql(generation) == ["1"] { try await projection.advance() }
                _ = try Self.trips(of: all, ObjectValue(), on: connection, rows: 2)
                #expect(former.count == 1 && connection.knownTables.count == 2)
            }
        }
    }
}
