import CRDT
import DQL
import Foundation
import LogFakes
import OperationLog
import Synchronization
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "Several workers of one projection, and workers that die",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), .timeLimit(.minutes(5)))
struct ProjectionTakeoverPostgresTests {
    @Test("of two workers one folds; the other sees what it folds, and folds when it has gone")
    func takeover() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { second in
                try await bench.projecting { first in
                    for (number, projection) in [first, second, first, second].enumerated() {
                        try await bench.execute(
                            "INSERT INTO c DOCUMENTS ({'_id': \(number)})", on: projection)
                    }
                    #expect(try bench.leaders() == 1)
                    #expect(try await bench.rows("SELECT _id FROM c", on: first).count == 4)
                }
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 4})", on: second)
                #expect(try bench.leaders() == 1)
                #expect(try await bench.rows("SELECT _id FROM c", on: second).count == 5)
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("a writer that lost its lead without knowing writes nothing")
    func fencing() async throws {
        try await ProjectionBench.run { bench in
            let start = try #require(try await bench.log.position(at: 0, in: ProjectionBench.database))
            let session = try ProjectionSession(
                url: bench.url, database: ProjectionBench.database, start: start, logger: quiet)
            for number in 0..<2 {
                try await bench.append(ProjectionPostgresTests.insert(into: "c", number))
            }
            let entries = try await bench.log.read(ProjectionBench.database, after: 0)
            let generation = try session.look().current
            let (zombie, heir) = (
                try GenerationWriter(generation, views: "db_cars", try Connection(url: bench.url), quiet),
                try GenerationWriter(generation, views: "db_cars", try Connection(url: bench.url), quiet)
            )
            try heir.fold([entries[0]])
            #expect(throws: (any Error).self) { try zombie.fold(entries) }
            #expect(try bench.stored().count == 1)
            try heir.fold([entries[1]])
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }

    @Test("connections that the server ends, all of them, again and again: the projection is the fold")
    func endedConnections() async throws {
        let rounds = Depth.pick(fast: 6, deep: 100)
        try await ProjectionBench.run { bench in
            try await bench.projecting { first in
                try await bench.projecting { second in
                    let hasEnded = Mutex(false)
                    let killing = Task {
                        for round in 0..<rounds {
                            try await Task.sleep(for: .milliseconds(1 + round * 37 % 60))
                            try TestDatabase.endConnections(of: bench.url)
                        }
                        hasEnded.withLock { $0 = true }
                    }
                    let writer = RandomWriter(bench, seed: 3)
                    while !hasEnded.withLock({ $0 }) {
                        await writer.step(on: first)
                        await writer.step(on: second)
                    }
                    try await killing.value
                    for _ in 0..<60 { await writer.step(on: first) }
                    try await first.advanceThroughFailures()
                    try await bench.catchUp(first)
                    #expect(try bench.stored() == (try await bench.fold()))
                    #expect(try bench.stored().count > 5)
                }
            }
        }
    }

    @Test("a rebuild under way goes on while statements read and write, and ends in the same documents")
    func rebuildBesides() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                let writer = RandomWriter(bench, seed: 5)
                for _ in 0..<60 { await writer.step(on: projection) }
                let views = #"SELECT count(*)::text FROM db_cars."c""#
                let before = try bench.sql(views)
                _ = try bench.sql("SELECT mimeo_projection.rebuild('cars')::text")
                for _ in 0..<40 {
                    await writer.step(on: projection)
                    _ = try await bench.rows("SELECT * FROM c", on: projection)
                    #expect(try bench.sql(views).count == before.count)
                }
                try await projection.advance()
                try await bench.catchUp(projection)
                #expect(try bench.sql("SELECT generation::text FROM mimeo_projection.databases") == ["2"])
                #expect(try bench.stored() == (try await bench.fold()))
                try await projection.advance()
                #expect(try bench.sql("SELECT count(*)::text FROM mimeo_projection.generations") == ["1"])
                #expect(
                    try bench.sql("SELECT count(*)::text FROM pg_namespace WHERE nspname LIKE 'mimeo\\_g%'")
                        == ["1"])
            }
        }
    }

    @Test("a log that went back, or is another one, is folded anew by itself")
    func lostHistory() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                for number in 0..<5 {
                    try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})", on: projection)
                }
                try Connection(url: bench.url).run(
                    """
                    BEGIN;
                    DELETE FROM mimeo_log.operations WHERE "offset" > 3;
                    UPDATE mimeo_log.actors SET sequence = 3;
                    UPDATE mimeo_log.databases SET head = 3,
                        hash = (SELECT hash FROM mimeo_log.operations WHERE "offset" = 3);
                    COMMIT
                    """)
                try await projection.advance()
                try await bench.catchUp(projection)
                #expect(try await bench.rows("SELECT _id FROM c", on: projection).count == 3)
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 'after'})", on: projection)
                #expect(try await bench.rows("SELECT _id FROM c", on: projection).count == 4)
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("a stored document that was damaged makes the projection build itself anew")
    func damage() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})", on: projection)
                try Connection(url: bench.url).run("UPDATE mimeo_g1.c1 SET state = '\\x00'")
                let update = ProjectionPostgresTests.operation([("c", ["m": 2])], actor: 9, sequence: 1)
                let change = CRDT.Operation.Change(
                    collection: "c", id: .numbered(1), delta: update.changes[0].delta)
                try await bench.append(
                    CRDT.Operation(
                        actor: update.actor, sequence: 1, timestamp: update.timestamp, changes: [change]))
                try await projection.advanceThroughFailures()
                try await bench.catchUp(projection)
                #expect(try bench.stored() == (try await bench.fold()))
                #expect(try bench.stored().count == 1)
            }
        }
    }

    @Test(
        "a damaged document that a statement meets is said so and makes the projection build itself anew",
        arguments: ["'\\x00'", "substr(state, 1, octet_length(state) - 1)"])
    func damageMetByReader(damaged: String) async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 'text'})", on: projection)
                try Connection(url: bench.url).run("UPDATE mimeo_g1.c1 SET state = \(damaged)")
                let error = await #expect(throws: ProjectionError.self) {
                    _ = try await bench.rows("SELECT n FROM c WHERE n = 'other'", on: projection)
                }
                #expect(error?.code == .damaged)
                try await projection.advanceThroughFailures()
                try await projection.advanceThroughFailures()
                #expect(try await bench.rows("SELECT n FROM c", on: projection) == [#"{"n":"text"}"#])
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("a damaged document in what is being built makes that be built anew, and nothing else")
    func damageBeside() async throws {
        try await ProjectionBench.run { bench in
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0))
            try await bench.projecting { try await bench.catchUp($0) }
            do {
                let start = try #require(try await bench.log.position(at: 0, in: ProjectionBench.database))
                let session = try ProjectionSession(
                    url: bench.url, database: ProjectionBench.database, start: start, logger: quiet)
                #expect(try session.look().isLeading)
                _ = try session.startBuilding(at: start)
                _ = try session.build(try await bench.log.read(ProjectionBench.database, after: 0))
                let table = try bench.sql(
                    "SELECT 'mimeo_g2.c' || number FROM mimeo_projection.collections WHERE generation = 2")[0]
                try Connection(url: bench.url).run("UPDATE \(table) SET state = '\\x00'")
                session.resign()
            }
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0, actor: 8))
            try await bench.projecting { projection in
                // Building is begun anew, besides, as soon as the damage is met.
                var generations: [String] = []
                for _ in 0..<300 where generations != ["3 0"] {
                    try? await projection.advance()
                    generations = try bench.sql(
                        """
                        SELECT generation::text || ' ' || coalesce(building, 0)
                        FROM mimeo_projection.databases
                        """
                    )
                    try await Task.sleep(for: .milliseconds(10))
                }
                let failure = await projection.failure
                #expect(generations == ["3 0"], "\(failure ?? "no failure")")
                try await bench.catchUp(projection)
                #expect(try await bench.rows("SELECT _id FROM c", on: projection).count == 1)
                #expect(try bench.stored() == (try await bench.fold()))
            }
        }
    }

    @Test("a damaged document in the log's snapshot stops what is built from it, and nobody's reading")
    func damagedSnapshot() async throws {
        try await ProjectionBench.run { bench in
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0))
            try await bench.projecting { try await bench.catchUp($0) }
            let head = try await bench.log.head(of: ProjectionBench.database)
            let draft = try await bench.log.beginSnapshot(of: ProjectionBench.database, at: head)
            var chunk = SnapshotChunk()
            let key = DocumentKey(collection: "c", id: try DocumentID(.int(0)))
            chunk.add(.begin(SnapshotStart(position: head, clock: 1, reapFloor: 0)))
            chunk.add(.document(SnapshotDocument(key: key, isLive: true, offset: 1, state: [0xff])))
            chunk.add(.end(actors: 0, documents: 1))
            try await bench.log.add(chunk.bytes, to: draft, in: ProjectionBench.database)
            _ = try await bench.log.finish(draft, in: ProjectionBench.database)
            _ = try bench.sql("SELECT mimeo_projection.rebuild('cars')::text")
            let projections = PostgresProjections(url: bench.url, logger: quiet)
            let projection = try await projections.open(ProjectionBench.database, log: bench.log)
            for attempt in 0..<4 {
                let error = await #expect(throws: ProjectionError.self) { try await projection.advance() }
                #expect(error?.code == .damaged, "\(attempt)")
            }
            #expect(try await bench.rows("SELECT _id FROM c", on: projection).count == 1)
            // The one that is read, the one that is tried, and the one before that.
            let tables = try bench.sql("SELECT count(*)::text FROM mimeo_projection.generations")
            #expect(["2", "3"].contains(tables[0]))
            await projection.close()
            await projections.close()
        }
    }

    @Test("somebody's own view of what is to be removed keeps that, and no rebuild from beginning")
    func ownView() async throws {
        try await ProjectionBench.run { bench in
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0))
            try await bench.projecting { projection in
                try await bench.catchUp(projection)
                let view = try bench.sql(
                    """
                    SELECT quote_ident(v.schemaname) || '.' || quote_ident(v.viewname) FROM pg_views v
                    JOIN mimeo_projection.databases d ON d.view_schema = v.schemaname
                    """)[0]
                try Connection(url: bench.url).run("CREATE VIEW public.report AS SELECT * FROM \(view)")
                for expected in ["2", "3"] {
                    _ = try bench.sql("SELECT mimeo_projection.rebuild('cars')::text")
                    var current = ""
                    for _ in 0..<300 where current != expected {
                        try? await projection.advance()
                        current = try bench.sql("SELECT generation::text FROM mimeo_projection.databases")[0]
                        try await Task.sleep(for: .milliseconds(10))
                    }
                    #expect(current == expected)
                }
                #expect(try bench.sql("SELECT count(*)::text FROM public.report") == ["1"])
            }
        }
    }

    @Test("a leader that verifies a snapshot is seen to be at work, chunk by chunk")
    func verifying() async throws {
        try await ProjectionBench.run { bench in
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0))
            let head = try await bench.log.head(of: ProjectionBench.database)
            let draft = try await bench.log.beginSnapshot(of: ProjectionBench.database, at: head)
            for number in 0..<3 {
                var chunk = SnapshotChunk()
                if number == 0 { chunk.add(.begin(SnapshotStart(position: head, clock: 1, reapFloor: 0))) }
                chunk.add(.actor(ActorProgress(actor: ActorID(UInt64(number)), sequence: 1, timestamp: 1)))
                if number == 2 { chunk.add(.end(actors: 3, documents: 0)) }
                try await bench.log.add(chunk.bytes, to: draft, in: ProjectionBench.database)
            }
            _ = try await bench.log.finish(draft, in: ProjectionBench.database)
            try await bench.log.truncate(ProjectionBench.database, through: 1, keepingHashesAfter: 0)
            let log = try WatchedLog(bench.log, url: bench.url)
            let projections = PostgresProjections(url: bench.url, logger: quiet)
            let projection = try await projections.open(ProjectionBench.database, log: log)
            try await projection.advance()
            // Three to verify, three to load; what the last chunk's loading does is not seen any more.
            #expect(log.changes.count == 6)
            #expect(Set(log.changes).count == 6)
            await projection.close()
            await projections.close()
        }
    }

    @Test("a leader that does nothing while there is something to do loses its lead")
    func stalled() async throws {
        try await ProjectionBench.run { bench in
            let start = try #require(try await bench.log.position(at: 0, in: ProjectionBench.database))
            let stalled = try ProjectionSession(
                url: bench.url, database: ProjectionBench.database, start: start, logger: quiet)
            #expect(try stalled.look().isLeading)
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0))
            try await bench.projecting(stallTimeout: .seconds(1)) { projection in
                try await bench.catchUp(projection)
                #expect(try bench.stored().count == 1)
            }
            #expect(throws: PostgresError.self) { try stalled.look() }
        }
    }
}

/// Tells at every chunk that is read how long the leader's connection has done nothing.
private final class WatchedLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its superclass: `changes` is guarded by its lock.
    private let connection: Connection
    private let seen = Mutex<[String]>([])

    init(_ log: any OperationLog, url: String) throws {
        connection = try Connection(url: url)
        super.init(log)
    }

    /// When the leader's connection last did something, at each chunk that was read.
    var changes: [String] { seen.withLock { $0 } }

    override func chunk(_ index: Int, of snapshot: LogSnapshot, in database: DatabaseID) async throws
        -> [UInt8]
    {
        let rows = try connection.query(
            """
            SELECT a.state_change::text FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE l.locktype = 'advisory' AND l.classid = \(ProjectionLocks.lead) AND l.granted
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """)
        seen.withLock { $0.append(rows.text(0, 0)) }
        return try await super.chunk(index, of: snapshot, in: database)
    }
}

/// Appends random statements of several actors, some of them drafted on one state and so concurrent.
private final class RandomWriter {
    private let bench: ProjectionBench
    private var random: SplitMix64

    init(_ bench: ProjectionBench, seed: UInt64) {
        self.bench = bench
        random = SplitMix64(seed: seed)
    }

    /// Does nothing where the server has just gone away.
    func step(on projection: PostgresProjection) async {
        let statement = statement()
        let actor = UInt64(random.below(3)) + 1
        _ = try? await bench.append(statement, as: actor, on: projection)
    }

    private func statement() -> String {
        let (id, value) = (random.below(12), random.below(100))
        let collection = random.pick(["c", "d", "Café"])
        switch random.below(8) {
        case 0..<3:
            return """
                INSERT INTO \(collection)
                DOCUMENTS ({'_id': \(id), 'm': {'x': \(value)}}), ({'_id': 'k\(id)'}) ON ID CONFLICT DO UPDATE
                """
        case 3: return "UPDATE \(collection) APPLY n INCREMENT BY \(value) WHERE _id = \(id)"
        case 4: return "UPDATE \(collection) UNSET m WHERE _id < \(id)"
        case 5: return "DELETE FROM \(collection) WHERE _id = \(id)"
        default: return "UPDATE \(collection) SET m.y = \(value), z = 'é' WHERE _id > \(id)"
        }
    }
}

extension PostgresProjection {
    /// Advances, again while the server ends connections.
    func advanceThroughFailures() async throws {
        for _ in 0..<3_000 {
            do { return try await advance() } catch { try await Task.sleep(for: .milliseconds(10)) }
        }
        try await advance()
    }
}

extension ProjectionBench {
    /// How many sessions lead.
    func leaders() throws -> Int {
        let rows = try Connection(url: url).query(
            """
            SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = \(ProjectionLocks.lead)
                AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """)
        return Int(rows.int8(0, 0))
    }
}
