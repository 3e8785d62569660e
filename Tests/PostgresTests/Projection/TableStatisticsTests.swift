import CRDT
import DQL
import DQLCorpus
import OperationLog
import Testing

@testable import Postgres

@Suite(
    "Statistics of a projection's tables",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct TableStatisticsTests {
    private static let least = 400
    private static let documents = 500

    /// The number of rows that PostgreSQL believes in; -1 if it never counted.
    private static func estimate(_ url: String) throws -> Int64 {
        try Connection(url: url).query(
            "SELECT reltuples::int8 FROM pg_class WHERE oid = 'mimeo_g1.c1'::regclass"
        ).int8(0, 0)
    }

    /// Statistics as of an empty table.
    private static func makeAbsurd(_ url: String) throws {
        try Connection(url: url).run(
            """
            ANALYZE mimeo_g1.c1;
            UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE oid = 'mimeo_g1.c1'::regclass;
            DELETE FROM pg_statistic WHERE starelid = 'mimeo_g1.c1'::regclass
            """)
    }

    private static func engine(_ url: String) throws -> ProjectionEngine {
        let engine = try ProjectionEngine(url: url, database: "statistics", surveyedDocuments: least)
        _ = try engine.execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'a': 0})", [:], strict: false)
        // One row is too few for the server to come by itself; afterwards it may not.
        try Connection(url: url).run("ALTER TABLE mimeo_g1.c1 SET (autovacuum_enabled = false)")
        let all = (1..<documents).map { number -> Value in ["_id": .int(Int64(number)), "a": 0] }
        _ = try engine.execute("INSERT INTO c DOCUMENTS (:d)", ["d": .array(all)], strict: false)
        return engine
    }

    @Test("a table is analyzed after large changes, if it never was and if its statistics are absurd")
    func afterLargeChanges() async throws {
        try await TestDatabase.use { url in
            let engine = try Self.engine(url)
            #expect(try Self.estimate(url) == -1)
            try engine.buildIndexes()
            #expect(try Self.estimate(url) == Int64(Self.documents))
            try Self.makeAbsurd(url)
            _ = try engine.rows("UPDATE c SET a = 1 WHERE _id < \(Self.least - 1)")
            try engine.buildIndexes()
            #expect(try Self.estimate(url) == 0)
            _ = try engine.rows("UPDATE c SET a = 2 WHERE _id = 0")
            try engine.buildIndexes()
            #expect(try Self.estimate(url) == Int64(Self.documents))
            let columns = try Connection(url: url).query(
                "SELECT count(*) FROM pg_statistic WHERE starelid = 'mimeo_g1.c1'::regclass")
            #expect(columns.int8(0, 0) > 0)
        }
    }

    @Test("a worker that begins to lead looks for absurd statistics; what could not be done is done later")
    func atTheStart() async throws {
        try await TestDatabase.use { url in
            try { try Self.engine(url).buildIndexes() }()
            try Self.makeAbsurd(url)
            let logID = LogID.random()
            let start = LogPosition(logID: logID, offset: 0, hash: ChainHash.start(logID))
            let session = try ProjectionSession(
                url: url, database: "statistics", start: start, logger: quiet,
                indexes: DefinedIndexes.projection, surveyedDocuments: Self.least)
            while try !session.look().isLeading { try await Task.sleep(for: .milliseconds(10)) }
            #expect(session.hasIndexWork)
            let work = try #require(try session.indexWork(isCurrentGood: true, isTaken: true).first)
            #expect(work.surveys.map(\.table) == ["mimeo_g1.c1"])
            let nowhere = IndexBuilder(url: "postgres://nobody@/none?host=/nowhere", logger: quiet)
            #expect(!nowhere.perform(work).isComplete)
            #expect(try session.indexWork(isCurrentGood: true, isTaken: true).isEmpty)
            session.takeBack(work)
            let again = try #require(try session.indexWork(isCurrentGood: true, isTaken: true).first)
            #expect(IndexBuilder(url: url, logger: quiet).perform(again).isComplete)
            #expect(try Self.estimate(url) == Int64(Self.documents))
        }
    }
}
