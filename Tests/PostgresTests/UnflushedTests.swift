import CRDT
import OperationLog
import Testing

@testable import Postgres

/// Plain appends leave the tables of frontiers and touches behind (`WriterKnowledge`): nobody may notice. The
/// first group of a writer does not.
@Suite(
    "The log in PostgreSQL: what waits to be flushed",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct UnflushedTests {
    /// Appends one by one, so that each is a group of its own.
    private static func append(
        _ sequences: ClosedRange<UInt64>, of actor: UInt64, to log: PostgresOperationLog, touch: Touch? = nil
    ) async throws {
        for sequence in sequences {
            let request = AppendRequest(
                record: record(actor, SequenceNumber(sequence)).record, authorKey: "key",
                touches: touch.map { [$0] } ?? [])
            let outcome = try await log.append([request], to: "db")[0]
            guard case .appended = outcome else {
                Issue.record("operation \(sequence) of \(actor): \(outcome)")
                return
            }
        }
    }

    private static func use(
        _ body: (PostgresOperationLog, _ other: PostgresOperationLog, Connection) async throws -> Void
    ) async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let other = try PostgresOperationLog(url: url)
            try await body(log, other, try Connection(url: url))
            await log.close()
            await other.close()
        }
    }

    @Test("a frontier counts it, for whoever asks")
    func frontier() async throws {
        try await Self.use { log, other, tables in
            try await Self.append(1...5, of: 1, to: log)
            _ = try await log.append([record(2, 1), record(2, 2), record(1, 6)], to: "db")
            let stored = try tables.query("SELECT max(sequence), count(*) FROM mimeo_log.actors")
            #expect(stored.int8(0, 0) == 1 && stored.int8(0, 1) == 1, "nothing waits: this shows nothing")
            for opening in [log, other] {
                let frontier = try await opening.frontier(of: [1, 2, 3].map { ActorID($0) }, in: "db")
                #expect(frontier[ActorID(1)]?.sequence == 6)
                #expect(frontier[ActorID(1)]?.timestamp == 1_006)
                #expect(frontier[ActorID(1)]?.hash == ChainHash.content(Array("1/6".utf8)))
                #expect(frontier[ActorID(2)]?.sequence == 2)
                #expect(frontier.mapValues(\.authorKey) == [ActorID(1): "key", ActorID(2): "key"])
            }
        }
    }

    @Test("another opening decides by it, and the first by what the other has appended since")
    func otherOpening() async throws {
        try await Self.use { log, other, _ in
            try await Self.append(1...3, of: 1, to: log)
            #expect(try await other.append([record(1, 3)], to: "db") == [.duplicate(through: 3)])
            #expect(try await other.append([record(1, 5)], to: "db") == [.gap(expected: 4)])
            let foreign = AppendRequest(record: record(1, 4).record, authorKey: "another", touches: [])
            #expect(try await other.append([foreign], to: "db") == [.conflict(.foreignActor)])
            #expect(try await other.append([record(1, 4)], to: "db") == [.appended(offset: 4)])
            #expect(try await log.append([record(1, 4)], to: "db") == [.duplicate(through: 4)])
            #expect(try await log.append([record(1, 5)], to: "db") == [.appended(offset: 5)])
            #expect(try await other.append([record(1, 5)], to: "db") == [.duplicate(through: 5)])
            #expect(try await other.append([record(2, 1)], to: "db") == [.appended(offset: 6)])
            #expect(try await log.append([record(2, 1)], to: "db") == [.duplicate(through: 1)])
            #expect(try await log.append([record(2, 2), record(1, 6)], to: "db").count == 2)
            #expect(try await other.frontier(of: [ActorID(2)], in: "db")[ActorID(2)]?.sequence == 2)
        }
    }

    @Test("a writer compares its own appends with what it knows of them")
    func ownKnowledge() async throws {
        try await Self.use { log, _, _ in
            try await Self.append(1...3, of: 1, to: log)
            #expect(try await log.append([record(1, 3)], to: "db") == [.duplicate(through: 3)])
            try await Self.append(4...5, of: 1, to: log)
            #expect(try await log.append([record(1, 7)], to: "db") == [.gap(expected: 6)])
            try await Self.append(6...7, of: 1, to: log)
            let foreign = AppendRequest(record: record(1, 8).record, authorKey: "another", touches: [])
            #expect(try await log.append([foreign], to: "db") == [.conflict(.foreignActor)])
            try await Self.append(8...9, of: 1, to: log)
            // New to the writer, and known to the log.
            #expect(try await log.append([record(2, 1)], to: "db") == [.appended(offset: 10)])
            #expect(try await log.append([record(2, 1)], to: "db") == [.duplicate(through: 1)])
            #expect(try await log.append([record(3, 2)], to: "db") == [.gap(expected: 1)])
        }
    }

    @Test("a condition is broken by it")
    func condition() async throws {
        try await Self.use { log, other, _ in
            let touch = Touch.collection("c")
            try await Self.append(1...4, of: 1, to: log, touch: touch)
            try await Self.append(5...6, of: 1, to: log)
            let outcomes: [AppendOutcome] = [.conflict(.condition(offset: 4)), .appended(offset: 7)]
            for (readAt, outcome) in zip(3...4 as ClosedRange<UInt64>, outcomes) {
                let late = AppendRequest(
                    record: record(2, 1).record, authorKey: "key", touches: [],
                    condition: AppendCondition(readAt: Offset(readAt), reads: [touch]))
                #expect(try await other.append([late], to: "db") == [outcome])
            }
        }
    }

    @Test("there is never more of it than a bound", arguments: [200, 1_000])
    func bound(each: UInt64) async throws {
        try await Self.use { log, other, tables in
            // Each operation touches one thing, so it counts twice.
            let most = UInt64(PostgresLimits.unflushedEntries) / 2
            let rounds = most / each * 2 + 8
            var flushed: Set<Int64> = []
            for round in 0..<rounds {
                let first = round * each + 1
                let touch = Touch(rawValue: round % 7)
                let requests = (first..<first + each).map { sequence in
                    AppendRequest(
                        record: record(1, SequenceNumber(sequence)).record, authorKey: "key", touches: [touch]
                    )
                }
                #expect(
                    try await log.append(requests, to: "db").last
                        == .appended(offset: Offset(first + each - 1)))
                let row = try tables.query("SELECT head - settled, settled FROM mimeo_log.databases")
                #expect(row.int8(0, 0) < most + each)
                flushed.insert(row.int8(0, 1))
            }
            #expect(flushed.count == 3, "not flushed at the first group and twice after it")
            let table = try tables.query(
                """
                SELECT a.sequence, d.settled, (SELECT max("offset") FROM mimeo_log.touched),
                    (SELECT count(*) FROM mimeo_log.touched)
                FROM mimeo_log.actors a, mimeo_log.databases d
                """)
            #expect(table.int8(0, 0) == table.int8(0, 1) && table.int8(0, 2) == table.int8(0, 1))
            #expect(table.int8(0, 3) == 7)
            #expect(
                try await other.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence.rawValue == rounds
                    * each)
            #expect(
                try await other.append([record(1, 1)], to: "db") == [
                    .duplicate(through: SequenceNumber(rounds * each))
                ])
        }
    }

    @Test("what operations touched counts for the bound as they do")
    func boundOfTouches() async throws {
        try await Self.use { log, _, tables in
            let touches = (0..<2_000 as Range<UInt64>).map { Touch(rawValue: $0) }
            let most = PostgresLimits.unflushedEntries
            for sequence in 1...UInt64(most / touches.count + 3) {
                let request = AppendRequest(
                    record: record(1, SequenceNumber(sequence)).record, authorKey: "key", touches: touches)
                #expect(try await log.append([request], to: "db") == [.appended(offset: Offset(sequence))])
                let waiting = try tables.query(
                    """
                    SELECT coalesce(sum(array_length(o.touches, 1)), 0)::int8 FROM mimeo_log.operations o
                    JOIN mimeo_log.databases d ON d.number = o.database AND o."offset" > d.settled
                    """)
                #expect(waiting.int8(0, 0) < Int64(most + touches.count))
            }
            let flushed = try tables.query("SELECT settled FROM mimeo_log.databases")
            #expect(flushed.int8(0, 0) > 1, "nothing was flushed")
        }
    }

    /// An operation that alone is as much as may wait.
    private static func large(_ actor: UInt64, _ sequence: SequenceNumber) -> AppendRequest {
        let touches = (0..<UInt64(PostgresLimits.unflushedEntries)).map { Touch(rawValue: $0) }
        return AppendRequest(record: record(actor, sequence).record, authorKey: "key", touches: touches)
    }

    @Test("a writer flushes from memory what the operations' rows say")
    func fromMemory() async throws {
        try await Self.use { log, _, tables in
            try await Self.append(1...2, of: 1, to: log)
            let requests = [UInt64(7), 9, 7, 8].enumerated().map { number, touch in
                AppendRequest(
                    record: record(UInt64(number % 3) + 2, SequenceNumber(UInt64(number / 3) + 1)).record,
                    authorKey: "key \(number % 3)", touches: [Touch(rawValue: 1 << 40 | touch)])
            }
            #expect(try await log.append(requests, to: "db").last == .appended(offset: 6))
            _ = try await log.append([Self.large(1, 3)], to: "db")
            let before = try tables.query("SELECT settled FROM mimeo_log.databases").int8(0, 0)
            #expect(before == 1, "nothing waits: this shows nothing")
            try await Self.append(4...4, of: 1, to: log)
            let after = try tables.query("SELECT settled, head FROM mimeo_log.databases")
            #expect([after.int8(0, 0), after.int8(0, 1)] == [7, 8])
            let differences = try tables.query(
                """
                WITH settled AS (
                    SELECT o.* FROM mimeo_log.operations o
                    JOIN mimeo_log.databases d ON d.number = o.database AND o."offset" <= d.settled
                ), lasts AS (
                    SELECT DISTINCT ON (s.actor) s.actor, s.sequence, s."timestamp", s.content
                    FROM settled s ORDER BY s.actor, s."offset" DESC
                ), touches AS (
                    SELECT t.touch, max(s."offset") FROM settled s, unnest(s.touches) AS t (touch) GROUP BY 1
                ), stored AS (
                    SELECT a.actor, a.sequence, a."timestamp", a.hash FROM mimeo_log.actors a
                ), touched AS (SELECT t.touch, t."offset" FROM mimeo_log.touched t)
                SELECT (SELECT count(*) FROM (TABLE lasts EXCEPT TABLE stored) AS x),
                    (SELECT count(*) FROM (TABLE stored EXCEPT TABLE lasts) AS x),
                    (SELECT count(*) FROM (TABLE touches EXCEPT TABLE touched) AS x),
                    (SELECT count(*) FROM (TABLE touched EXCEPT TABLE touches) AS x)
                """)
            #expect((0..<4).map { differences.int8(0, $0) } == [0, 0, 0, 0])
            let keys = try tables.query(
                "SELECT string_agg(a.actor || ' ' || a.key, ', ' ORDER BY a.actor) FROM mimeo_log.actors a")
            #expect(keys.text(0, 0) == "1 key, 2 key 0, 3 key 1, 4 key 2")
        }
    }

    @Test("a writer that others have overtaken flushes nothing from memory")
    func fromMemoryBehindOthers() async throws {
        try await Self.use { log, other, tables in
            try await Self.append(1...2, of: 1, to: log)
            _ = try await log.append([Self.large(1, 3)], to: "db")
            let touch = Touch(rawValue: 5)
            try await Self.append(1...2, of: 2, to: other, touch: touch)
            try await Self.append(4...4, of: 1, to: log)
            // Flushes, and changes nothing.
            #expect(try await other.append([record(1, 1)], to: "db") == [.duplicate(through: 4)])
            let row = try tables.query("SELECT \"offset\" FROM mimeo_log.touched WHERE touch = 5")
            #expect(row.int8(0, 0) == 5)
            #expect(try tables.query("SELECT settled FROM mimeo_log.databases").int8(0, 0) == 6)
            #expect(try await log.frontier(of: [ActorID(2)], in: "db")[ActorID(2)]?.sequence == 2)
        }
    }

    @Test("an actor that is new while others wait is registered to its key, by whomever it is flushed")
    func newActors() async throws {
        try await Self.use { log, other, tables in
            try await Self.append(1...2, of: 1, to: log)
            for actor in 2...4 as ClosedRange<UInt64> { try await Self.append(1...2, of: actor, to: log) }
            _ = try await log.append([record(5, 1), record(6, 1), record(1, 3)], to: "db")
            let waiting = try tables.query("SELECT count(*) FROM mimeo_log.actors").int8(0, 0)
            #expect(waiting == 1, "nothing waits: this shows nothing")
            let foreign = AppendRequest(record: record(5, 2).record, authorKey: "another", touches: [])
            #expect(try await other.append([foreign], to: "db") == [.conflict(.foreignActor)])
            let keys = try tables.query("SELECT count(*) FROM mimeo_log.actors WHERE key = 'key'")
            #expect(keys.int8(0, 0) == 6)
            // Known to the log, and new to a writer.
            #expect(try await other.append([record(7, 1)], to: "db") == [.appended(offset: 12)])
            #expect(try await other.append([record(5, 3)], to: "db") == [.gap(expected: 2)])
            #expect(try await other.append([record(5, 2), record(8, 1)], to: "db").count == 2)
            #expect(try await log.read("db", after: 0).map(\.offset) == Array(1...14))
        }
    }

    @Test("what an operation of several touched, and which of a group touched it last, is flushed as it was")
    func touchesOfAGroup() async throws {
        try await Self.use { log, other, tables in
            try await Self.append(1...1, of: 1, to: log)
            let lists: [[UInt64]] = [[1, 2], [], [2, 3, 4], [1], []]
            let requests = lists.enumerated().map { number, touches in
                AppendRequest(
                    record: record(1, SequenceNumber(UInt64(number) + 2)).record, authorKey: "key",
                    touches: touches.map { Touch(rawValue: $0) })
            }
            _ = try await log.append(requests, to: "db")
            // Flushes, and changes nothing.
            _ = try await other.append([record(1, 1)], to: "db")
            let rows = try tables.query("SELECT touch, \"offset\" FROM mimeo_log.touched ORDER BY touch")
            let found = (0..<rows.count).map { [rows.int8($0, 0), rows.int8($0, 1)] }
            #expect(found == [[1, 5], [2, 4], [3, 4], [4, 4]])
        }
    }

    @Test("a truncation flushes it, and what is left of the index is what an index would have")
    func truncation() async throws {
        try await Self.use { log, _, tables in
            try await Self.append(1...3, of: 1, to: log, touch: .collection("old"))
            try await Self.append(4...6, of: 1, to: log, touch: .collection("new"))
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            try await log.add([1], to: draft, in: "db")
            _ = try await log.finish(draft, in: "db")
            try await log.truncate("db", through: 3, keepingHashesAfter: 0)
            let touched = try tables.query(
                "SELECT count(*), max(\"offset\") FROM mimeo_log.touched WHERE \"offset\" > 0")
            #expect(touched.int8(0, 0) == 1)
            #expect(touched.int8(0, 1) == 6)
            try await Self.append(7...8, of: 1, to: log)
            #expect(try await log.append([record(1, 2)], to: "db") == [.duplicate(through: 8)])
        }
    }

    @Test("a writer whose connection was lost knows nothing, and asks the tables")
    func lostConnection() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            try await Self.append(1...3, of: 1, to: log)
            try TestDatabase.endConnections(of: url)
            try await appendThroughFailures(log, 1, count: 6)
            #expect(try await log.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence == 6)
            #expect(try await log.read("db", after: 0).map(\.sequence) == Array(1...6))
            await log.close()
        }
    }
}
