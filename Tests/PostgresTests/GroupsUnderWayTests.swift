import CRDT
import OperationLog
import Testing

@testable import Postgres

/// A writer sends a group behind one whose answer it has not read.
@Suite(
    "The log in PostgreSQL: two groups under way",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), .timeLimit(.minutes(5)))
struct GroupsUnderWayTests {
    /// A writer that knows the head of `db`, the log to look at what it wrote, and another process's.
    private static func use(
        knownActors: Int = PostgresLimits.knownActors,
        _ body: (PostgresLogWriter, PostgresOperationLog, _ url: String) async throws -> Void
    ) async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let writer = PostgresLogWriter(url: url, logger: quiet, knownActors: knownActors)
            #expect(try outcomes(writer.finish(writer.begin([try call(record(1, 1))]))) == [appended(1)])
            try await body(writer, log, url)
            writer.close()
            await log.close()
        }
    }

    private static func call(_ requests: AppendRequest..., to database: DatabaseID = "db") throws
        -> AppendCall
    {
        try AppendCall(requests, database: database)
    }

    private static func appended(_ offsets: UInt64...) -> [AppendOutcome] {
        offsets.map { .appended(offset: Offset($0)) }
    }

    /// By call; throws what was refused.
    private static func outcomes(
        _ finished: (GroupOutcome, grown: [DatabaseID: Offset])
    ) throws -> [[AppendOutcome]] {
        switch finished.0 {
        case .committed(let results): try results.map { try $0.get() }
        case .refused(let error), .poisoned(let error): throw error
        }
    }

    private static func code(_ finished: (GroupOutcome, grown: [DatabaseID: Offset]))
        -> OperationLogErrorCode?
    {
        #expect(throws: OperationLogError.self) { _ = try outcomes(finished) }?.code
    }

    @Test("both are stored, in the order in which they were begun")
    func inOrder() async throws {
        try await Self.use { writer, log, _ in
            let meeting = writer.begin([try Self.call(record(2, 1))])
            #expect(try Self.outcomes(writer.finish(meeting)) == [Self.appended(2)])
            let first = writer.begin([try Self.call(record(1, 2)), try Self.call(record(2, 2))])
            let second = writer.begin([try Self.call(record(1, 3), record(2, 3))])
            #expect(first.sent == [2] && second.sent == [4], "they were not sent: this shows nothing")
            #expect(try Self.outcomes(writer.finish(first)) == [Self.appended(3), Self.appended(4)])
            let third = writer.begin([try Self.call(record(2, 4))])
            #expect(try Self.outcomes(writer.finish(second)) == [Self.appended(5, 6)])
            let grown = writer.finish(third).grown
            #expect(grown == ["db": 7])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 1, 2, 2, 3, 3, 4])
        }
    }

    @Test("behind somebody else's append neither is where it was to be, and both are appended after all")
    func overtaken() async throws {
        try await Self.use { writer, log, _ in
            _ = try await log.append([record(9, 1)], to: "db")
            let first = writer.begin([try Self.call(record(1, 2))])
            let second = writer.begin([try Self.call(record(1, 3), record(2, 1))])
            #expect(first.sent == [1] && second.sent == [2], "they were not sent: this shows nothing")
            #expect(try Self.outcomes(writer.finish(first)) == [Self.appended(3)])
            // Not ahead of what was begun before it.
            let third = writer.begin([try Self.call(record(1, 4))])
            #expect(third.sent.isEmpty)
            #expect(try Self.outcomes(writer.finish(second)) == [Self.appended(4, 5)])
            #expect(try Self.outcomes(writer.finish(third)) == [Self.appended(6)])
            let frontier = try await log.frontier(of: [ActorID(1), ActorID(2)], in: "db")
            #expect(frontier.mapValues(\.sequence) == [ActorID(1): 4, ActorID(2): 1])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 1, 2, 3, 1, 4])
        }
    }

    @Test("a lost connection ends a term: what depends on it is not appended, what does not is")
    func term() async throws {
        try await Self.use { writer, log, url in
            let term = writer.term
            let known = try Self.call(Self.judged(1, 2, in: term))
            #expect(try Self.outcomes(writer.finish(writer.begin([known]))) == [Self.appended(2)])
            try TestDatabase.endConnections(of: url)
            let calls = [
                try Self.call(Self.judged(1, 3, in: term)), try Self.call(record(2, 1)),
                try Self.call(Self.judged(3, 1, in: term), record(4, 1)),
            ]
            #expect(
                try Self.outcomes(writer.finish(writer.begin(calls))) == [
                    [.conflict(.termOver)], Self.appended(3), [.conflict(.termOver), .conflict(.termOver)],
                ])
            #expect(writer.term > term)
            let again = try Self.call(Self.judged(1, 3, in: writer.term))
            #expect(try Self.outcomes(writer.finish(writer.begin([again]))) == [Self.appended(4)])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 2, 1, 3])
        }
    }

    /// An operation that was judged in a term.
    private static func judged(_ actor: UInt64, _ sequence: SequenceNumber, in term: UInt64) -> AppendRequest
    {
        AppendRequest(record: record(actor, sequence).record, authorKey: "key", touches: [], term: term)
    }

    @Test("while there is no connection the server may fail over: what is judged then is judged again")
    func betweenConnections() async throws {
        try await Self.use { writer, log, url in
            let lost = writer.begin([try Self.call(record(1, 2))])
            try TestDatabase.endConnections(of: url)
            _ = writer.finish(lost)
            let between = writer.term
            let sequence = try await log.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence ?? 0
            let call = try Self.call(Self.judged(1, sequence.next, in: between))
            #expect(try Self.outcomes(writer.finish(writer.begin([call]))) == [[.conflict(.termOver)]])
            let again = try Self.call(Self.judged(1, sequence.next, in: writer.term))
            #expect(
                try Self.outcomes(writer.finish(writer.begin([again]))) == [
                    Self.appended(sequence.next.rawValue)
                ])
            let first = PostgresLogWriter(url: url, logger: quiet)
            let early = try Self.call(Self.judged(5, 1, in: first.term))
            #expect(try Self.outcomes(first.finish(first.begin([early]))) == [[.conflict(.termOver)]])
            first.close()
        }
    }

    @Test(
        "a log found put back in the midst of a group: what depends on no term goes on in the next one"
    )
    func putBackInTheMidst() async throws {
        try await Self.use { writer, log, url in
            try await log.createDatabase("other")
            #expect(
                try Self.outcomes(writer.finish(writer.begin([try Self.call(record(1, 2))])))
                    == [Self.appended(2)])
            try Connection(url: url).run(
                """
                DELETE FROM mimeo_log.operations WHERE "offset" = 2;
                UPDATE mimeo_log.databases SET head = 1, settled = 1,
                    hash = (SELECT hash FROM mimeo_log.operations WHERE "offset" = 1) WHERE id = 'db';
                """)
            let touch = Touch.collection("c")
            let conditional = AppendRequest(
                record: record(7, 1).record, authorKey: "key", touches: [touch],
                condition: AppendCondition(readAt: 0, reads: [touch]))
            let term = writer.term
            let group = writer.begin([
                try Self.call(Self.judged(1, 2, in: term)), try Self.call(conditional, to: "other"),
                try Self.call(Self.judged(8, 1, in: term), to: "other"),
            ])
            #expect(
                try Self.outcomes(writer.finish(group)) == [
                    Self.appended(2), Self.appended(1), [.conflict(.termOver)],
                ])
            #expect(try await log.head(of: "other").offset == 1)
        }
    }

    @Test("what another process has appended of the first is found there, and the second follows it")
    func alreadyThere() async throws {
        try await Self.use { writer, log, _ in
            _ = try await log.append([record(1, 2)], to: "db")
            let first = writer.begin([try Self.call(record(1, 2))])
            let second = writer.begin([try Self.call(record(1, 3))])
            #expect(try Self.outcomes(writer.finish(first)) == [[.duplicate(through: 3)]])
            #expect(try Self.outcomes(writer.finish(second)) == [Self.appended(3)])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 2, 3])
        }
    }

    /// Runs `others`, which wait for the lock of the database's row, then what `body` begins behind them.
    private static func behindLock<Begun>(
        _ url: String, others: @escaping @Sendable () async throws -> [AppendOutcome],
        _ body: () throws -> Begun
    ) async throws -> (Begun, others: [AppendOutcome]) {
        let holder = try Connection(url: url)
        try holder.run("BEGIN; SELECT 1 FROM mimeo_log.databases FOR UPDATE")
        async let outcomes = others()
        try await wait(url, forWaiters: 1)
        let begun = try body()
        try await wait(url, forWaiters: 2)
        try holder.run("COMMIT")
        return (begun, try await outcomes)
    }

    private static func wait(_ url: String, forWaiters count: Int64) async throws {
        let watch = try Connection(url: url)
        for _ in 0..<6_000 {
            let waiting = try watch.query(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """)
            if waiting.int8(0, 0) >= count { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("nobody waits for the lock")
    }

    @Test("the very same operations of another process stand where the first was to: the second follows them")
    func overtakenByTheSame() async throws {
        try await Self.use { writer, log, url in
            _ = try await log.append([record(9, 1)], to: "db")
            let opening = writer.begin([try Self.call(record(1, 2))])
            #expect(try Self.outcomes(writer.finish(opening)) == [Self.appended(3)])
            // Now the writer knows the head again.
            let knowing = writer.begin([try Self.call(record(1, 3))])
            #expect(try Self.outcomes(writer.finish(knowing)) == [Self.appended(4)])
            let other = try PostgresOperationLog(url: url)
            let (begun, others) = try await Self.behindLock(url) {
                try await other.append([record(1, 4)], to: "db")
            } _: {
                [writer.begin([try Self.call(record(1, 4))]), writer.begin([try Self.call(record(1, 5))])]
            }
            #expect(others == Self.appended(5))
            #expect(begun.map(\.sent) == [[4], [5]], "they were not sent: this shows nothing")
            #expect(try Self.outcomes(writer.finish(begun[0])) == [[.duplicate(through: 5)]])
            #expect(try Self.outcomes(writer.finish(begun[1])) == [Self.appended(6)])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 1, 2, 3, 4, 5])
            await other.close()
        }
    }

    @Test("nothing is sent of an actor whose first operation is unread: another process has it under its key")
    func overtakenUnderAnotherKey() async throws {
        try await Self.use { writer, log, url in
            let foreign = AppendRequest(record: record(5, 1).record, authorKey: "another", touches: [])
            let (begun, others) = try await Self.behindLock(url) {
                try await log.append([foreign], to: "db")
            } _: {
                [writer.begin([try Self.call(record(5, 1))]), writer.begin([try Self.call(record(5, 2))])]
            }
            #expect(others == Self.appended(2))
            #expect(begun.map(\.sent) == [[1], []])
            #expect(try Self.outcomes(writer.finish(begun[0])) == [[.conflict(.foreignActor)]])
            #expect(try Self.outcomes(writer.finish(begun[1])) == [[.conflict(.foreignActor)]])
            #expect(try await log.frontier(of: [ActorID(5)], in: "db")[ActorID(5)]?.sequence == 1)
        }
    }

    @Test("a log that is put back under open connections retires what services have leased")
    func putBack() async throws {
        try await Self.use { writer, log, url in
            let tables = try Connection(url: url)
            let lease = try #require(await log.lease("writing", of: 1, for: .seconds(3_600), in: "db"))
            #expect(try await log.renew(lease, for: .seconds(3_600), in: "db"))
            let second = writer.begin([try Self.call(record(1, 2))])
            #expect(try Self.outcomes(writer.finish(second)) == [Self.appended(2)])
            try tables.run(
                """
                DELETE FROM mimeo_log.operations WHERE "offset" = 2;
                UPDATE mimeo_log.databases SET head = 1, settled = 1,
                    hash = (SELECT hash FROM mimeo_log.operations WHERE "offset" = 1);
                UPDATE mimeo_log.home SET place = 'before';
                """)
            let held = "SELECT count(*) FROM mimeo_log.leases WHERE actor IS NOT NULL"
            #expect(try tables.query(held).int8(0, 0) == 1)
            for sequence in 2...3 as ClosedRange<UInt64> {
                let group = writer.begin([try Self.call(record(1, SequenceNumber(sequence)))])
                #expect(try Self.outcomes(writer.finish(group)) == [Self.appended(sequence)])
            }
            #expect(try tables.query(held).int8(0, 0) == 0)
            try tables.run("UPDATE mimeo_log.home SET place = 'before'")
            let again = try #require(await log.lease("writing", of: 1, for: .seconds(3_600), in: "db"))
            #expect(again.actor != lease.actor)
            try tables.run("UPDATE mimeo_log.home SET place = 'before'")
            #expect(try await log.renew(again, for: .seconds(3_600), in: "db") == false)
        }
    }

    @Test("tables that another build has changed are not tried again and again, and health says so")
    func otherFormat() async throws {
        try await Self.use { _, log, url in
            let tables = try Connection(url: url)
            try tables.run("DROP FUNCTION mimeo_log.append_plain")
            for code in [OperationLogErrorCode.unsupportedFormat, .poisoned] {
                let error = await #expect(throws: OperationLogError.self) {
                    try await log.append([record(1, 2)], to: "db")
                }
                #expect(error?.code == code)
            }
            #expect(log.status.refusal?.code == .poisoned)
            try tables.run("ALTER TABLE mimeo_log.operations RENAME COLUMN content TO contents")
            let refused = await #expect(throws: OperationLogError.self) {
                try await log.frontier(of: [ActorID(1)], in: "db")
            }
            #expect(refused?.code == .unsupportedFormat)
        }
    }

    @Test(
        "more actors than are remembered, two groups under way: all are forgotten, and compared by the server"
    )
    func forgottenActors() async throws {
        try await Self.use(knownActors: 15) { writer, log, _ in
            let each: UInt64 = 8
            let parts = [UInt64(1_000_000), 2_000_000].map { start in
                (start..<start + each).map { record($0, 1) }
            }
            let begun = try parts.map { writer.begin([try AppendCall($0, database: "db")]) }
            #expect(begun.map(\.sent) == [[1], [Offset(1 + each)]], "they were not sent: this shows nothing")
            #expect(try Self.outcomes(writer.finish(begun[0]))[0].last == .appended(offset: Offset(1 + each)))
            // Forgotten, with all others, behind a group under way: the server compares what comes.
            let known = writer.begin([try Self.call(record(1_000_000, 2))])
            let unread = writer.begin([try Self.call(record(2_000_000, 2))])
            #expect(known.sent.isEmpty && unread.sent.isEmpty)
            #expect(
                try Self.outcomes(writer.finish(begun[1]))[0].last == .appended(offset: Offset(1 + 2 * each)))
            #expect(try Self.outcomes(writer.finish(known)) == [Self.appended(2 + 2 * each)])
            #expect(try Self.outcomes(writer.finish(unread)) == [Self.appended(3 + 2 * each)])
            let next = writer.begin([try Self.call(record(2_000_000, 3), record(1, 2))])
            #expect(
                next.sent == [Offset(3 + 2 * each)],
                "it was not sent: it forgets everything, or asks each time")
            #expect(try Self.outcomes(writer.finish(next)) == [Self.appended(4 + 2 * each, 5 + 2 * each)])
            let actors = [ActorID(1_000_000), ActorID(2_000_000), ActorID(2_000_000 + each - 1)]
            let frontier = try await log.frontier(of: actors, in: "db")
            #expect(actors.map { frontier[$0]?.sequence } == [2, 3, 1])
        }
    }

    @Test("of a group of several databases that part waits its turn which somebody else has overtaken")
    func severalDatabases() async throws {
        try await Self.use { writer, log, _ in
            try await log.createDatabase("other")
            let opening = writer.begin([try Self.call(record(1, 1), to: "other")])
            #expect(try Self.outcomes(writer.finish(opening)) == [Self.appended(1)])
            _ = try await log.append([record(9, 1)], to: "other")
            let group = writer.begin([
                try Self.call(record(1, 2), to: "other"), try Self.call(record(1, 2), record(1, 3)),
            ])
            #expect(group.sent == [1, 1])
            let finished = writer.finish(group)
            #expect(try Self.outcomes(finished) == [Self.appended(3), Self.appended(2, 3)])
            #expect(finished.grown == ["db": 3, "other": 3])
        }
    }

    @Test("a group that has a condition is not sent, and nothing overtakes it")
    func condition() async throws {
        try await Self.use { writer, log, _ in
            let touch = Touch.collection("c")
            let conditional = AppendRequest(
                record: record(1, 2).record, authorKey: "key", touches: [touch],
                condition: AppendCondition(readAt: 1, reads: [touch]))
            let first = writer.begin([try Self.call(conditional)])
            let second = writer.begin([try Self.call(record(2, 1))])
            #expect(first.sent.isEmpty && second.sent.isEmpty)
            #expect(try Self.outcomes(writer.finish(first)) == [Self.appended(2)])
            #expect(try Self.outcomes(writer.finish(second)) == [Self.appended(3)])
            let again = AppendRequest(
                record: record(1, 3).record, authorKey: "key", touches: [touch],
                condition: AppendCondition(readAt: 1, reads: [touch]))
            let late = writer.begin([try Self.call(again)])
            #expect(try Self.outcomes(writer.finish(late)) == [[.conflict(.condition(offset: 2))]])
            #expect(try await log.head(of: "db").offset == 3)
        }
    }

    @Test("of both it is unknown what became of them when the connection is lost, and the frontier knows")
    func lostConnection() async throws {
        try await Self.use { writer, log, url in
            let first = writer.begin([try Self.call(record(1, 2))])
            let second = writer.begin([try Self.call(record(1, 3))])
            // After this the server has done what was sent, and hangs up before it is read.
            try TestDatabase.endConnections(of: url)
            let outcomes = [writer.finish(first), writer.finish(second)].map { finished in
                (try? Self.outcomes(finished)) == nil ? Self.code(finished) : nil
            }
            let sequence = try await log.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence ?? 0
            for (outcome, own) in zip(outcomes, 2...3 as ClosedRange<SequenceNumber>) {
                #expect(outcome == .outcomeUnknown || sequence >= own)
            }
            // What was sent behind a group that was lost is not sent again by itself.
            #expect(outcomes[0] != .outcomeUnknown || outcomes[1] == .outcomeUnknown)
            let next = writer.begin([try Self.call(record(1, sequence.next))])
            #expect(next.sent.isEmpty)
            #expect(try Self.outcomes(writer.finish(next)) == [Self.appended(sequence.next.rawValue)])
        }
    }

    @Test("what the server refuses at the commit is not acknowledged, and no later group is lost with it")
    func refusedCommit() async throws {
        try await Self.use { writer, log, url in
            let tables = try Connection(url: url)
            try tables.run(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'not today' USING ERRCODE = '53100'; END $$;
                CREATE CONSTRAINT TRIGGER refusal AFTER INSERT ON mimeo_log.operations_1
                    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.sequence = 2)
                    EXECUTE FUNCTION refuse();
                """)
            let first = writer.begin([try Self.call(record(1, 2))])
            let second = writer.begin([try Self.call(record(3, 1))])
            #expect(first.sent == [1] && second.sent == [2], "they were not sent: this shows nothing")
            #expect(Self.code(writer.finish(first)) == .storageFull)
            #expect(try Self.outcomes(writer.finish(second)) == [Self.appended(2)])
            // The same in one round trip.
            let again = writer.begin([try Self.call(record(1, 2)), try Self.call(record(4, 1))])
            #expect(Self.code(writer.finish(again)) == .storageFull)
            try tables.run("DROP TRIGGER refusal ON mimeo_log.operations_1")
            let last = writer.begin([try Self.call(record(1, 2))])
            #expect(try Self.outcomes(writer.finish(last)) == [Self.appended(3)])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 1, 2])
        }
    }

    @Test("what was appended to one database stays told so when the rest of its group is refused")
    func partlyRefused() async throws {
        try await Self.use { writer, log, url in
            try await log.createDatabase("other")
            let opening = writer.begin([try Self.call(record(1, 1), to: "other")])
            #expect(try Self.outcomes(writer.finish(opening)) == [Self.appended(1)])
            _ = try await log.append([record(9, 1)], to: "other")
            try Connection(url: url).run(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'not today' USING ERRCODE = '53100'; END $$;
                CREATE TRIGGER refusal BEFORE INSERT ON mimeo_log.operations_2
                    FOR EACH ROW EXECUTE FUNCTION refuse();
                """)
            let group = writer.begin([
                try Self.call(record(1, 2), to: "other"), try Self.call(record(1, 2), record(1, 3)),
            ])
            #expect(group.sent == [1, 1], "it was not sent: this shows nothing")
            guard case (.committed(let results), let grown) = writer.finish(group) else {
                Issue.record("all of it was refused")
                return
            }
            #expect(throws: OperationLogError.self) { try results[0].get() }
            #expect(try results[1].get() == Self.appended(2, 3))
            #expect(grown == ["db": 3])
            #expect(try await log.head(of: "other").offset == 2)
        }
    }

    @Test("a log that was put back under a writer is noticed, also where its head has the same number")
    func replacedHistory() async throws {
        try await Self.use { writer, log, url in
            let tables = try Connection(url: url)
            try tables.run(
                """
                UPDATE mimeo_log.operations SET hash = hash + 1;
                UPDATE mimeo_log.databases SET hash = hash + 1;
                """)
            let group = writer.begin([try Self.call(record(1, 2))])
            #expect(group.sent == [1], "it was not sent: this shows nothing")
            #expect(try Self.outcomes(writer.finish(group)) == [Self.appended(2)])
            let damage = await #expect(throws: OperationLogError.self) { try await log.read("db", after: 0) }
            #expect(damage?.offset == 1)
            #expect(try await log.read("db", after: 1).map(\.sequence) == [2])
        }
    }
}
