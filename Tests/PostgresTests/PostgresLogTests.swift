import CRDT
import Foundation
import OperationLog
import Synchronization
import Testing

@testable import Postgres

@Suite(
    "The log in PostgreSQL, beyond the contract",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), .timeLimit(.minutes(5)))
struct PostgresLogTests {
    /// The head that a reader finds when it is woken up; nobody else looks, and wake-ups do not wait for it.
    private final class Seen: Sendable { let head = Atomic<UInt64>(0) }

    @Test("appenders of several openings get contiguous offsets, each operation one, in its actor's order")
    func contention() async throws {
        try await TestDatabase.use { url in
            let logs = try (0..<4).map { _ in try PostgresOperationLog(url: url) }
            try await logs[0].createDatabase("db")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for actor in 1...16 as ClosedRange<UInt64> {
                    let log = logs[Int(actor) % 4]
                    group.addTask {
                        for sequence in 1...25 as ClosedRange<UInt64> {
                            _ = try await log.append([record(actor, SequenceNumber(sequence))], to: "db")
                        }
                    }
                }
                try await group.waitForAll()
            }
            let entries = try await logs[3].read("db", after: 0)
            #expect(entries.map(\.offset) == Array(1...400))
            for actor in 1...16 as ClosedRange<UInt64> {
                #expect(entries.filter { $0.actor == ActorID(actor) }.map(\.sequence) == Array(1...25))
            }
            for log in logs { await log.close() }
        }
    }

    @Test("appends to several databases in different orders never wait for each other in a ring")
    func severalDatabases() async throws {
        try await TestDatabase.use { url in
            let logs = try (0..<2).map { _ in try PostgresOperationLog(url: url) }
            for name in ["a", "b", "c"] { try await logs[0].createDatabase(DatabaseID(name)) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (number, names) in [["a", "b", "c"], ["c", "b", "a"]].enumerated() {
                    for task in 0..<6 as Range<UInt64> {
                        group.addTask {
                            let actor = UInt64(number) * 100 + task + 1
                            for sequence in 1...20 as ClosedRange<UInt64> {
                                for name in names {
                                    _ = try await logs[number].append(
                                        [record(actor, SequenceNumber(sequence))], to: DatabaseID(name))
                                }
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            for name in ["a", "b", "c"] {
                #expect(try await logs[0].head(of: DatabaseID(name)).offset == 240)
            }
            for log in logs { await log.close() }
        }
    }

    @Test("connections that the server ends under load: nothing acknowledged is lost, nothing stands twice")
    func endedConnections() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let acknowledged = try await withThrowingTaskGroup(of: [UInt64: UInt64].self) { group in
                for actor in 1...8 as ClosedRange<UInt64> {
                    group.addTask { [actor: try await appendThroughFailures(log, actor, count: 40)] }
                }
                group.addTask {
                    for _ in 0..<8 {
                        try await Task.sleep(for: .milliseconds(15))
                        try TestDatabase.endConnections(of: url)
                    }
                    return [:]
                }
                return try await group.reduce(into: [:]) { $0.merge($1) { max($0, $1) } }
            }
            let entries = try await readThroughFailures(log)
            #expect(entries.map(\.offset.rawValue) == Array(1...UInt64(entries.count)))
            #expect(acknowledged == Dictionary(uniqueKeysWithValues: (1...8).map { ($0, 40) }))
            for actor in 1...8 as ClosedRange<UInt64> {
                #expect(entries.filter { $0.actor == ActorID(actor) }.map(\.sequence) == Array(1...40))
            }
            await log.close()
        }
    }

    @Test("a follower hears of another opening's appends again after its connection was lost")
    func followingAgain() async throws {
        try await TestDatabase.use { url in
            var options = PostgresOperationLog.Options()
            options.pollInterval = .seconds(60)
            let reader = try PostgresOperationLog(url: url, options: options)
            try await reader.createDatabase("db")
            let writer = try PostgresOperationLog(url: url)
            let seen = Task {
                for await _ in reader.changes(in: "db") {
                    if try await readThroughFailures(reader).count == 2 { return true }
                }
                return false
            }
            _ = try await writer.append([record(1, 1)], to: "db")
            try TestDatabase.endConnections(of: url)
            try await appendThroughFailures(writer, 1, count: 2)
            #expect(try await seen.value)
            await reader.close()
            await writer.close()
        }
    }

    @Test(
        "the last of several appends is heard of by another opening that hardly ever looks",
        .timeLimit(.minutes(1)), arguments: [0, 7])
    func notices(pause milliseconds: Int) async throws {
        try await TestDatabase.use { url in
            var options = PostgresOperationLog.Options()
            options.pollInterval = .seconds(600)
            let reader = try PostgresOperationLog(url: url, options: options)
            try await reader.createDatabase("db")
            let writer = try PostgresOperationLog(url: url, options: options)
            let seen = Seen()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for await _ in reader.changes(in: "db") {
                        seen.head.store(try await reader.head(of: "db").offset.rawValue, ordering: .relaxed)
                    }
                }
                var last: UInt64 = 0
                for round in 0..<40 {
                    // Behind a pause the first one is notified of at once, and the next ones meanwhile.
                    try await Task.sleep(for: PostgresLimits.noticeSpacing * 2)
                    for _ in 0...round % 4 {
                        last += 1
                        _ = try await writer.append([record(1, SequenceNumber(last))], to: "db")
                        if milliseconds > 0 { try await Task.sleep(for: .milliseconds(milliseconds)) }
                    }
                    while seen.head.load(ordering: .relaxed) < last {
                        try await Task.sleep(for: .milliseconds(1))
                    }
                }
                group.cancelAll()
            }
            await reader.close()
            await writer.close()
        }
    }

    @Test("an append whose notification was lost is found by looking", .timeLimit(.minutes(2)))
    func lostNotification() async throws {
        try await TestDatabase.use { url in
            var options = PostgresOperationLog.Options()
            options.pollInterval = .milliseconds(50)
            let reader = try PostgresOperationLog(url: url, options: options)
            try await reader.createDatabase("db")
            // A process that dies between its commit and its notice.
            let writer = PostgresLogWriter(url: url, logger: quiet)
            var seen = 0
            for await _ in reader.changes(in: "db") {
                seen = try await readThroughFailures(reader).count
                guard seen < 3 else { break }
                let call = try AppendCall([record(1, SequenceNumber(UInt64(seen) + 1))], database: "db")
                guard case .committed = writer.finish(writer.begin([call])).0 else { break }
            }
            #expect(seen == 3)
            writer.close()
            await reader.close()
        }
    }

    @Test("each database's operations are a partition of their own")
    func partitions() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            for name in ["a", "b"] {
                try await log.createDatabase(DatabaseID(name))
                _ = try await log.append([record(1, 1), record(1, 2)], to: DatabaseID(name))
            }
            let rows = try Connection(url: url).query(
                """
                SELECT tableoid::regclass::text, count(*) FROM mimeo_log.operations
                GROUP BY tableoid ORDER BY 1
                """)
            #expect((0..<rows.count).map { rows.int8($0, 1) } == [2, 2])
            #expect(
                (0..<rows.count).map { rows.text($0, 0) } == [
                    "mimeo_log.operations_1", "mimeo_log.operations_2",
                ])
            await log.close()
        }
    }

    @Test("a connection that the server has ended says so at the first look for notifications")
    func lastWords() async throws {
        try await TestDatabase.use { url in
            let connection = try Connection(url: url)
            try connection.run("LISTEN nothing")
            #expect(try connection.notifications().isEmpty)
            try TestDatabase.endConnections(of: url)
            let error = #expect(throws: PostgresError.self) { try connection.notifications() }
            #expect(error?.isConnectionLost == true)
        }
    }

    @Test("an entry that was changed behind the log's back is named and never served")
    func damage() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            for sequence in 1...5 as ClosedRange<UInt64> {
                _ = try await log.append([record(1, SequenceNumber(sequence))], to: "db")
            }
            let connection = try Connection(url: url)
            try connection.run(
                "UPDATE mimeo_log.operations SET bytes = bytes || '\\x00'::bytea WHERE \"offset\" = 3")
            #expect(try await log.read("db", after: 0, limit: ReadLimit(operations: 2)).count == 2)
            let error = await #expect(throws: OperationLogError.self) { try await log.read("db", after: 0) }
            #expect(error?.code == .corrupt && error?.offset == 3)
            try connection.run("DELETE FROM mimeo_log.operations WHERE \"offset\" = 5")
            await log.close()
            // As after a restoration of the tables, which ends all connections.
            let again = try PostgresOperationLog(url: url)
            let refusal = await #expect(throws: OperationLogError.self) {
                try await again.append([record(1, 6)], to: "db")
            }
            #expect(refusal?.code == .corrupt && refusal?.offset == 5)
            await again.close()
        }
    }

    @Test("a schema of another format or of another application is refused and left as it is")
    func foreignSchema() async throws {
        try await TestDatabase.use { url in
            await (try PostgresOperationLog(url: url)).close()
            let connection = try Connection(url: url)
            for version in [99, PostgresLogSchema.oldestVersion - 1, 1] {
                try connection.run("UPDATE mimeo_log.format SET version = \(version)")
                let refusal = #expect(throws: OperationLogError.self) { try PostgresOperationLog(url: url) }
                #expect(refusal?.code == .unsupportedFormat)
                let kept = try connection.query("SELECT version FROM mimeo_log.format").int8(0, 0)
                #expect(kept == Int64(version))
                let found = try #require(try PostgresOperationLog.storedFormat(url: url))
                #expect(found.stored == version && found.isTooOld == (version != 99) && !found.isOlder)
            }
            try connection.run("DROP SCHEMA mimeo_log CASCADE; CREATE SCHEMA mimeo_log")
            let error = #expect(throws: OperationLogError.self) { try PostgresOperationLog(url: url) }
            #expect(error?.code == .notAnOperationLog)
        }
    }

    @Test("what truncation removes is given back to the table for use")
    func tableSize() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let connection = try Connection(url: url)
            // An autovacuum beside ours would keep it from freeing what it sees.
            try connection.run("ALTER TABLE mimeo_log.operations_1 SET (autovacuum_enabled = off)")
            var sizes: [Int64] = []
            for round in 0..<6 as Range<UInt64> {
                for start in stride(from: round * 2_000 + 1, to: (round + 1) * 2_000, by: 500) {
                    let requests = (start..<start + 500).map { record(1, SequenceNumber($0), size: 300) }
                    _ = try await log.append(requests, to: "db")
                }
                let head = try await log.head(of: "db")
                let draft = try await log.beginSnapshot(of: "db", at: head)
                try await log.add([UInt8](repeating: 7, count: 100_000), to: draft, in: "db")
                _ = try await log.finish(draft, in: "db")
                try await log.truncate(
                    "db", through: head.offset.advanced(by: -100), keepingHashesAfter: head.offset)
                sizes.append(
                    try connection.query("SELECT pg_total_relation_size('mimeo_log.operations_1')").int8(0, 0)
                )
            }
            #expect(sizes[5] <= sizes[1] + sizes[1] / 4, "the table grew: \(sizes)")
            await log.close()
        }
    }

    @Test("giving space back ends with the task that waits for it, and what comes next finds a connection")
    func leftInTheMidst() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            _ = try await log.append([record(1, 1)], to: "db")
            let head = try await log.head(of: "db")
            _ = try await log.finish(try await log.beginSnapshot(of: "db", at: head), in: "db")
            let (holder, looker) = (try Connection(url: url), try Connection(url: url))
            try holder.run("BEGIN; LOCK TABLE mimeo_log.touched IN SHARE UPDATE EXCLUSIVE MODE")
            let upkeep = Task {
                try await log.truncate("db", through: head.offset, keepingHashesAfter: head.offset)
            }
            let waiting = """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'VACUUM%' AND wait_event_type = 'Lock'
                """
            while try looker.query(waiting).int8(0, 0) == 0 { try await Task.sleep(for: .milliseconds(20)) }
            upkeep.cancel()
            await #expect(throws: CancellationError.self) { try await upkeep.value }
            #expect(try looker.query(waiting).int8(0, 0) == 1, "the lock was still held")
            try holder.run("COMMIT")
            try await log.truncate("db", through: head.offset, keepingHashesAfter: head.offset)
            #expect(try await log.truncation(of: "db").offset == head.offset)
            await log.close()
        }
    }

    @Test("a change whose answer was lost is made once, and said to be unknown")
    func lostAnswer() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let connection = try Connection(url: url)
            try connection.run("CREATE TABLE made (number int8)")
            // So that every lane has a connection.
            for _ in 0..<8 { _ = try await log.databases() }
            for _ in 0..<4 {
                let error = await #expect(throws: OperationLogError.self) {
                    try await log.changing { lane in
                        try lane.run("INSERT INTO made VALUES (1)")
                        try lane.run("SELECT pg_terminate_backend(pg_backend_pid())")
                    }
                }
                #expect(error?.code == .outcomeUnknown)
            }
            #expect(try connection.query("SELECT count(*) FROM made").int8(0, 0) == 4)
            await log.close()
        }
    }

    @Test("connections that the server ended while nothing was under way are no reason to fail a change")
    func idleConnections() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            for round in 0..<8 {
                try TestDatabase.endConnections(of: url)
                #expect(try await log.createDatabase(DatabaseID("db\(round)")))
            }
            await log.close()
        }
    }

    @Test("the index of last offsets is shortened under the lock of the appends")
    func indexLock() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            _ = try await log.append([record(1, 1), record(1, 2)], to: "db")
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            try await log.add([1], to: draft, in: "db")
            _ = try await log.finish(draft, in: "db")
            try await log.truncate("db", through: 2, keepingHashesAfter: 0)
            let appender = try Connection(url: url)
            try appender.run("BEGIN; SELECT 1 FROM mimeo_log.databases FOR UPDATE")
            // Nothing is left to remove but from the index.
            async let truncation: Void = log.truncate("db", through: 2, keepingHashesAfter: 0)
            let watch = try Connection(url: url)
            var isWaiting = false
            for _ in 0..<6_000 where !isWaiting {
                try await Task.sleep(for: .milliseconds(10))
                isWaiting = try watch.query(
                    """
                    SELECT EXISTS (SELECT 1 FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock')
                    """
                ).bool(0, 0)
            }
            #expect(isWaiting)
            try appender.run("COMMIT")
            try await truncation
            await log.close()
        }
    }

    @Test("many openings at once make the schema once")
    func migrationRace() async throws {
        try await TestDatabase.use { url in
            let logs = try await withThrowingTaskGroup(of: PostgresOperationLog.self) { group in
                for _ in 0..<6 { group.addTask { try PostgresOperationLog(url: url) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(try await logs[0].createDatabase("db"))
            #expect(try await logs[5].databases() == ["db"])
            for log in logs { await log.close() }
        }
    }

    @Test("a server that cannot be reached is said so, and waited for no longer than asked")
    func unreachable() throws {
        let url = "postgres://nobody@/none?host=/nowhere"
        let error = #expect(throws: OperationLogError.self) {
            try PostgresOperationLog.open(url: url, patience: .milliseconds(120), logger: quiet)
        }
        #expect(error?.code == .unreachable)
    }

    @Test("a database or a role that a server does not have, and a URL that is none, are not waited for")
    func wrongURL() throws {
        let server = try #require(TestDatabase.serverURL)
        var components = try #require(URLComponents(string: server))
        components.path = "/nosuch"
        let nowhere = try #require(components.string)
        let secret = "postgres://ada:50%off-s3cret@localhost/db"
        for url in [nowhere, "postgres://[", server + "&sslmode=banana", secret] {
            let error = #expect(throws: OperationLogError.self) {
                try PostgresOperationLog.open(url: url, patience: .seconds(60), logger: quiet)
            }
            #expect(error?.code == .cannotOpen)
            #expect(error?.description.contains("s3cret") == false)
        }
    }

    @Test("the writer waits for the disk, whatever the role's setting is")
    func durability() async throws {
        try await TestDatabase.use { url in
            let name = try #require(URLComponents(string: url)).path.dropFirst()
            try Connection(url: url).run("ALTER DATABASE \(name) SET synchronous_commit = off")
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            _ = try await log.append([record(1, 1)], to: "db")
            let writer = PostgresLogWriter(url: url, logger: quiet)
            #expect(try writer.setting("synchronous_commit") == "on")
            await log.close()
        }
    }

    @Test("the closing of a database that was moved waits for the disk, whatever the role's setting is")
    func durableClosing() async throws {
        try await TestDatabase.use { url in
            let name = try #require(URLComponents(string: url)).path.dropFirst()
            let observer = try Connection(url: url)
            try observer.run(
                """
                ALTER DATABASE \(name) SET synchronous_commit = off;
                CREATE TABLE seen (setting text);
                CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS $body$
                BEGIN
                    INSERT INTO public.seen VALUES (current_setting('synchronous_commit'));
                END $body$;
                CREATE EVENT TRIGGER see ON ddl_command_end WHEN TAG IN ('CREATE TRIGGER')
                    EXECUTE FUNCTION see()
                """)
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let place = NewPlace(log: "sqlite:/elsewhere", address: nil)
            try await log.close("db", movedTo: place, from: nil)
            let seen = try observer.query("SELECT setting FROM seen")
            #expect((0..<seen.count).map { seen.text($0, 0) } == ["on"])
            await log.close()
        }
    }
}
