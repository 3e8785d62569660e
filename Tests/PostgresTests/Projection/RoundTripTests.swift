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
        let found = try ProjectionSnapshot.run(of: ProjectionBench.database, on: connection) { snapshot in
            try prepared.rows(in: snapshot, arguments: arguments)
        }
        #expect(found.count == rows, "\(statement)")
        return connection.roundTrips - before
    }

    @Test("a read by id takes three: the snapshot, the document, the end; pushed parts take few more")
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
                    ("SELECT * FROM oaks WHERE _id = :id", 1, 3),
                    ("SELECT * FROM oaks WHERE height = :n", 1, 3),
                    ("SELECT COUNT(*) AS n FROM oaks WHERE height > :n", 1, 4),
                    ("SELECT * FROM oaks ORDER BY height DESC LIMIT 2", 2, 4),
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
