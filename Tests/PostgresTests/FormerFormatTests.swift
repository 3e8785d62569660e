import CRDT
import OperationLog
import Testing

@testable import Postgres

/// A process of the format before that still runs while another one migrates the tables.
@Suite(
    "The log in PostgreSQL: a process of the fourth format",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), .timeLimit(.minutes(2)))
struct FormerFormatTests {
    /// The function by which such a process appended one operation, in that format's own words.
    private static let appendNext = """
        CREATE FUNCTION mimeo_log.append_next(
            database_id text, known int8, wanted_slot int8, who int8, key text, sequence int8, stamp int8,
            content int8, digest int8, body bytea, touches int8[], places int8[]
        ) RETURNS int8
        LANGUAGE plpgsql AS $body$
        DECLARE
            home int8;
            chained int8;
        BEGIN
            UPDATE mimeo_log.databases d SET head = known + 1,
                hash = ((d.hash << 29) | ((d.hash >> 35) & 536870911)) # digest
            WHERE d.id = database_id AND d.head = known RETURNING d.number, d.hash INTO home, chained;
            UPDATE mimeo_log.unsettled u SET head = known, actors = ARRAY[who], keys = '{}',
                lasts = ARRAY[append_next.sequence], stamps = ARRAY[stamp], hashes = ARRAY[content],
                touches = append_next.touches, places = append_next.places
            WHERE u.database = home AND u.slot = wanted_slot;
            IF NOT FOUND THEN
                INSERT INTO mimeo_log.unsettled VALUES (
                    home, wanted_slot, known, ARRAY[who], ARRAY[append_next.key], ARRAY[append_next.sequence],
                    ARRAY[stamp], ARRAY[content], touches, places);
            END IF;
            INSERT INTO mimeo_log.operations
            VALUES (home, known + 1, who, append_next.sequence, stamp, chained, body);
            RETURN known;
        END $body$;
        """

    private static func append(_ sequence: SequenceNumber, on connection: Connection) throws {
        let record = record(1, sequence).record
        let content = ChainHash.content(record.bytes)
        let digest = ChainHash.digest(
            actor: record.actor, sequence: sequence, timestamp: record.timestamp, contentHash: content)
        _ = try connection.query(
            "SELECT mimeo_log.append_next('db', $1, $2, 1, 'key', $3, $4, $5, $6, $7, '{}', '{}')",
            [
                .int8(Int64(sequence.rawValue) - 1), .int8(Int64(sequence.rawValue)),
                .int8(Int64(sequence.rawValue)),
                .int8(Int64(record.timestamp)), .int8(Int64(bitPattern: content)),
                .int8(Int64(bitPattern: digest)), .bytes(record.bytes),
            ])
    }

    private static func waitForLock(_ connection: Connection) async throws {
        for _ in 0..<6_000 {
            let waiting = try connection.query(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """)
            if waiting.int8(0, 0) > 0 { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("nobody waits for the lock")
    }

    @Test(
        "its append that waits while the tables are migrated fails, told what happened, and nothing is lost")
    func waitingAppend() async throws {
        try await TestDatabase.use { url in
            let tables = try Connection(url: url)
            for step in PostgresLogSchema.steps.prefix(4) { try tables.run(step) }
            try tables.run("INSERT INTO mimeo_log.format VALUES (4)")
            try tables.run(Self.appendNext)
            let logID = LogID.random()
            _ = try tables.query(
                "SELECT mimeo_log.create_database('db', $1, $2)",
                [.bytes(logID.bytes), .int8(Int64(bitPattern: ChainHash.start(logID)))])
            for sequence in 1...2 as ClosedRange<UInt64> {
                try Self.append(SequenceNumber(sequence), on: tables)
            }

            let migrating = try Connection(url: url)
            try migrating.run("BEGIN; \(PostgresLogSchema.steps[4]); UPDATE mimeo_log.format SET version = 5")
            let former = ConnectionLanes(url: url, count: 1)
            let late = Task { try await former.run(isRepeatable: false) { try Self.append(3, on: $0) } }
            try await Self.waitForLock(tables)
            try migrating.run("COMMIT")
            let error = await #expect(throws: PostgresError.self) { try await late.value }
            #expect(error.map { PostgresLogWriter.translated($0).code } == .newerFormat)
            await former.close()

            let log = try PostgresOperationLog(url: url)
            #expect(try await log.head(of: "db").offset == 2)
            #expect(try await log.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence == 2)
            #expect(try await log.append([record(1, 2)], to: "db") == [.duplicate(through: 2)])
            #expect(try await log.append([record(1, 3)], to: "db") == [.appended(offset: 3)])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 2, 3])
            await log.close()
        }
    }
}
