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
                    ("SELECT * FROM oaks WHERE height = :n", 1, 2),
                    ("SELECT COUNT(*) AS n FROM oaks WHERE height > :n", 1, 3),
                    ("SELECT * FROM oaks ORDER BY height DESC LIMIT 2", 2, 3),
                ]
                let arguments: ObjectValue = ["id": "oak-3", "n": 2]
                // The first time statements are prepared, and the table is looked up.
                for (text, rows, _) in statements {
                    _ = try Self.trips(of: text, arguments, on: connection, rows: rows)
                }
                for (text, rows, most) in statements {
                    #expect(
                        try Self.trips(of: text, arguments, on: connection, rows: rows) <= most, "\(text)")
                }
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
