import CRDT
import DQL
import OperationLog
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "The beginning of a snapshot of a projection",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"),
    .timeLimit(.minutes(5)))
struct SnapshotBeginningTests {
    /// The rows of a statement at the log's head as JSON, with the round trips that they took.
    private static func read(
        _ text: String, _ arguments: ObjectValue = ObjectValue(), on connection: Connection
    ) throws -> (rows: [String], trips: Int) {
        let prepared = try PreparedStatement(text)
        let used = ObjectValue(arguments.entries.filter { text.contains(":" + $0.key) })
        let before = connection.roundTrips
        let rows = try ProjectionSnapshot.run(
            of: ProjectionBench.database, on: connection, fetching: prepared.soleDocument(used),
            demanding: .head(from: 0)
        ) { try prepared.rows(in: $0, arguments: used).map { JSONText.print($0, sortedKeys: true) } }
        return (rows, connection.roundTrips - before)
    }

    private static func fill(
        _ bench: ProjectionBench, _ projection: PostgresProjection, _ count: Int
    ) async throws {
        let oaks = (0..<count).map { "({'_id': 'oak-\($0)', 'n': \($0), 'wood': \($0 % 3)})" }
        try await bench.execute(
            "INSERT INTO oaks DOCUMENTS \(oaks.joined(separator: ", "))", on: projection)
        try await bench.execute(
            "INSERT INTO woods DOCUMENTS ({'_id': 0}), ({'_id': 1, 'name': 'old'})", on: projection)
    }

    private static func index(
        _ bench: ProjectionBench, _ projection: PostgresProjection
    ) async throws {
        let index = IndexDescription(
            name: "n", collection: "oaks", keys: [IndexDescription.Key(path: ["n"])])
        let author = ActorID(9)
        let frontier = try await bench.log.frontier(of: [author], in: ProjectionBench.database)[author]
        let draft = try await projection.draft(
            as: author, sequence: (frontier?.sequence ?? 0).next, wallMilliseconds: 1_700_000_000_000
        ) { draft in
            try draft.edit(DefinedIndexes.collection, DefinedIndexes.id(index.name, index.collection)) {
                try $0.create(DefinedIndexes.fields(of: index))
            }
        }
        try await bench.append(try #require(draft.operation))
        try await projection.advance()
        let ready = "SELECT count(*)::text FROM mimeo_projection.indexes WHERE is_ready"
        while try bench.sql(ready) == ["0"] { try await projection.advance() }
    }

    @Test("one round trip asks for head, position and rows: of a document, of lists, of ranges")
    func trips() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await Self.fill(bench, projection, 90)
                try await Self.index(bench, projection)
                let connection = try Connection(url: bench.url)
                let statements = [
                    ("SELECT * FROM oaks WHERE _id = :id", 1), ("SELECT * FROM oaks LIMIT 40", 40),
                    ("SELECT * FROM oaks WHERE n = :n", 1),
                    ("SELECT * FROM oaks WHERE n BETWEEN 5 AND 44", 40),
                    ("SELECT * FROM oaks WHERE wood = 1", 30),
                    ("SELECT * FROM oaks WHERE _id IN ('oak-1', 'oak-2', 'none')", 2),
                    ("SELECT * FROM nowhere WHERE _id = :id", 0),
                ]
                let arguments: ObjectValue = ["id": "oak-3", "n": 2]
                // At first statements are prepared, and tables looked up.
                for _ in 0..<3 {
                    for (text, _) in statements { _ = try Self.read(text, arguments, on: connection) }
                }
                for (text, rows) in statements {
                    let found = try Self.read(text, arguments, on: connection)
                    #expect(found.trips == 1, "\(text)")
                    #expect(found.rows.count == rows, "\(text)")
                }
            }
        }
    }

    @Test("groups take three at most, for documents that SQL cannot judge; joins four, for their partners")
    func moreTrips() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await Self.fill(bench, projection, 9)
                let connection = try Connection(url: bench.url)
                let statements = [
                    ("SELECT COUNT(*) AS c FROM oaks WHERE wood < 2", 1, 2),
                    ("SELECT n FROM oaks WHERE n > 2 ORDER BY n LIMIT 4", 4, 2),
                    ("SELECT wood, COUNT(*) AS c FROM oaks GROUP BY wood", 3, 3),
                    ("SELECT o._id FROM oaks AS o JOIN woods AS w ON w._id = o.wood WHERE o.n > 1", 4, 4),
                ]
                for (text, rows, most) in statements {
                    for _ in 0..<3 { _ = try Self.read(text, on: connection) }
                    let found = try Self.read(text, on: connection)
                    #expect(found.rows.count == rows, "\(text)")
                    #expect(found.trips <= most, "\(text)")
                }
            }
        }
    }

    @Test(
        "a projection behind the log's head, ahead of it or of another log is not read, nor below an offset")
    func elsewhere() async throws {
        try await ProjectionBench.run { bench in
            let projections = PostgresProjections(url: bench.url, isBesideLog: true, logger: quiet)
            let projection = try await projections.open(ProjectionBench.database, log: bench.log)
            let one = try PreparedStatement("SELECT * FROM oaks WHERE _id = 1")
            let all = try PreparedStatement("SELECT * FROM oaks WHERE n = 1")
            func read(from offset: Offset = 0) async throws -> [Int?] {
                var found: [Int?] = []
                for _ in 0..<4 {
                    for statement in [one, all] {
                        found.append(
                            try await projection.readAtHead(
                                from: offset, fetching: statement.soleDocument(ObjectValue())
                            ) { try statement.rows(in: $0).count })
                    }
                }
                return found
            }
            #expect(try await read() == Array(repeating: 0, count: 8))
            try await bench.append("INSERT INTO oaks DOCUMENTS ({'_id': 1, 'n': 1})", on: projection)
            #expect(try await read() == Array(repeating: nil, count: 8))
            try await projection.advance()
            #expect(try await read() == Array(repeating: 1, count: 8))
            #expect(try await read(from: 1) == Array(repeating: 1, count: 8))
            #expect(try await read(from: 2) == Array(repeating: nil, count: 8))
            for change in ["hash = hash + 1", "head = head - 1", "log_id = sha256(log_id)"] {
                let connection = try Connection(url: bench.url)
                try connection.run(
                    """
                    CREATE TABLE former AS SELECT log_id, head, hash FROM mimeo_log.databases;
                    UPDATE mimeo_log.databases SET \(change)
                    """)
                #expect(try await read() == Array(repeating: nil, count: 8), "\(change)")
                try connection.run(
                    """
                    UPDATE mimeo_log.databases d SET log_id = f.log_id, head = f.head, hash = f.hash
                    FROM former f;
                    DROP TABLE former
                    """)
                #expect(try await read() == Array(repeating: 1, count: 8), "\(change)")
            }
            await projection.close()
            await projections.close()
        }
    }

    @Test("a projection that is not beside its log is never read at the head")
    func apart() async throws {
        try await ProjectionBench.run { bench in
            let projections = PostgresProjections(url: bench.url, logger: quiet)
            let projection = try await projections.open(ProjectionBench.database, log: bench.log)
            #expect(try await projection.readAtHead(from: 0) { _ in 1 } == nil)
            await projection.close()
            await projections.close()
        }
    }

    @Test("one who reads more than the document that came along gets all of it, of one moment")
    func asksMore() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await Self.fill(bench, projection, 3)
                let connection = try Connection(url: bench.url)
                let key = DocumentKey(collection: "oaks", id: try DocumentID("oak-1"))
                for _ in 0..<3 {
                    let found = try ProjectionSnapshot.run(
                        of: ProjectionBench.database, on: connection, fetching: key,
                        demanding: .head(from: 0)
                    ) { snapshot in
                        var ids: [Value] = []
                        try snapshot.lookup("oaks", key.id) { ids.append($0.id.value) }
                        try snapshot.scan("woods") {
                            ids.append($0.id.value)
                            return true
                        }
                        return ids
                    }
                    #expect(found == ["oak-1", 0, 1])
                }
            }
        }
    }

    @Test("an error that rests on a generation that is gone is not told")
    func outdatedFailure() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await Self.fill(bench, projection, 3)
                let connection = try Connection(url: bench.url)
                func version(failingAt wrong: UInt64?) throws -> UInt64 {
                    try ProjectionSnapshot.run(of: ProjectionBench.database, on: connection) {
                        guard $0.indexVersion != wrong else { throw CancellationError() }
                        return $0.indexVersion
                    }
                }
                let former = try version(failingAt: nil)
                #expect(throws: CancellationError.self) { try version(failingAt: former) }
                try await Self.index(bench, projection)
                #expect(try version(failingAt: former) > former)
            }
        }
    }

    /// A change between two reads of a property test.
    private static let changes = [
        "INSERT INTO oaks DOCUMENTS ({'_id': :id, 'n': :n, 'wood': 1}) ON ID CONFLICT DO UPDATE",
        "UPDATE oaks SET n = :n WHERE _id = :id", "DELETE FROM oaks WHERE n = :n",
        "INSERT INTO woods DOCUMENTS ({'_id': :n, 'name': :id}) ON ID CONFLICT DO UPDATE",
        "INSERT INTO `more-:n` DOCUMENTS ({'_id': :id}) ON ID CONFLICT DO NOTHING",
    ]
    private static let shapes = [
        "SELECT * FROM oaks WHERE _id = :id", "SELECT * FROM oaks ORDER BY _id LIMIT 40",
        "SELECT * FROM oaks WHERE n = :n ORDER BY _id", "SELECT * FROM oaks WHERE n > :n ORDER BY n, _id",
        "SELECT wood, COUNT(*) AS c, SUM(n) AS s FROM oaks GROUP BY wood ORDER BY wood",
        "SELECT DISTINCT n FROM oaks WHERE wood = 1 ORDER BY n LIMIT 5",
        "SELECT o._id, w.name FROM oaks AS o JOIN woods AS w ON w._id = o.n ORDER BY o._id",
        "SELECT COUNT(*) AS c FROM woods", "SELECT * FROM woods WHERE _id = :n",
        "SELECT * FROM `more-:n` WHERE _id = :id", "SELECT n FROM oaks WHERE n BETWEEN 3 AND 20 ORDER BY n",
        "SELECT * FROM oaks WHERE _id IN (:id, 'oak-1') ORDER BY _id",
    ]

    @Test("statements drawn at random give on a connection that expects what they give on one that asks")
    func expecting() async throws {
        let seed = Depth.seed
        var random = SplitMix64(seed: seed)
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await Self.fill(bench, projection, 50)
                let connections = [try Connection(url: bench.url), try Connection(url: bench.url)]
                for turn in 0..<Depth.pick(fast: 60, deep: 2_000) {
                    let n = Int.random(in: 0..<60, using: &random)
                    let arguments: ObjectValue = ["id": .string("oak-\(n)"), "n": .int(Int64(n))]
                    func drawn(_ texts: [String]) -> String {
                        texts[Int.random(in: 0..<texts.count, using: &random)]
                            .replacing("`more-:n`", with: "`more-\(n % 5)`")
                    }
                    if turn % 3 == 0 {
                        let change = drawn(Self.changes)
                        let used = ObjectValue(arguments.entries.filter { change.contains(":" + $0.key) })
                        try await bench.execute(change, used, on: projection)
                    }
                    if turn == 20 { try await Self.index(bench, projection) }
                    if turn == 40 { try await projection.rebuild() }
                    let shape = drawn(Self.shapes)
                    let asking = try Connection(url: bench.url)
                    let wanted = try Self.read(shape, arguments, on: asking).rows
                    for connection in connections where turn % 2 == 0 || connection === connections[0] {
                        #expect(
                            try Self.read(shape, arguments, on: connection).rows == wanted,
                            "\(seed), turn \(turn): \(shape) \(arguments)")
                    }
                }
            }
        }
    }
}
