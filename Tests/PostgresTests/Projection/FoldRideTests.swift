import CRDT
import DQL
import OperationLog
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "Folds that are committed with their appends",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"),
    .timeLimit(.minutes(5)))
struct FoldRideTests {
    /// Drafts and appends statements as a service does, on two connections that last.
    private final class Author {
        struct Draft {
            let requests: [AppendRequest]
            let ride: FoldRide?
            /// The round trips until both were there.
            let trips: Int
        }

        private let connection: Connection
        private let writer: PostgresLogWriter
        private let actor: ActorID
        private var sequence: SequenceNumber = 0

        init(_ bench: ProjectionBench, actor: UInt64 = 77) throws {
            connection = try Connection(url: bench.url)
            writer = PostgresLogWriter(url: bench.url, logger: quiet)
            self.actor = ActorID(actor)
        }

        func draft(_ texts: [String]) throws -> Draft {
            let statements = try texts.map { try PreparedStatement($0) }
            let before = connection.roundTrips
            let (requests, ride) = try ProjectionSnapshot.run(
                of: ProjectionBench.database, on: connection, demanding: .head(from: 0)
            ) { snapshot in
                try snapshot.expect(statements.flatMap { $0.namedDocuments(ObjectValue()) })
                var chain = try snapshot.chain(as: actor, sequence: sequence.next) { 1_700_000_000_000 }
                let offset = try snapshot.position().offset
                let operations = try statements.compactMap { statement in
                    try chain.add { _ in
                    } _: { draft, _ in
                        try statement.execute(in: draft) { throw CancellationError() }
                    }.operation
                }
                let requests = operations.map {
                    AppendRequest(
                        $0, authorKey: "key", condition: AppendCondition(readAt: offset, reads: []))
                }
                return (
                    requests,
                    try snapshot.ride(of: requests, definitions: DefinedIndexes.collection, quiet)
                )
            }
            return Draft(requests: requests, ride: ride, trips: connection.roundTrips - before)
        }

        /// - Returns: the offset of the last operation, and the round trips until the commit.
        @discardableResult
        func append(_ draft: Draft) throws -> (last: Offset?, trips: Int) {
            let before = writer.roundTrips
            let call = try AppendCall(
                draft.requests, database: ProjectionBench.database, rider: draft.ride)
            guard case .committed(let results) = writer.finish(writer.begin([call])).0 else {
                return (nil, 0)
            }
            let outcomes = try results[0].get()
            sequence = sequence.advanced(by: draft.requests.count)
            guard case .appended(let offset)? = outcomes.last else { return (nil, 0) }
            return (offset, writer.roundTrips - before)
        }
    }

    /// Runs a body with a projection that leads, and folds only when it is told to.
    private static func leading(
        _ body: (ProjectionBench, PostgresProjection) async throws -> Void
    ) async throws {
        try await ProjectionBench.run { bench in
            let projections = PostgresProjections(
                url: bench.url, isBesideLog: true, indexes: DefinedIndexes.projection, logger: quiet)
            let projection = try await projections.open(ProjectionBench.database, log: bench.log)
            try await bench.execute("INSERT INTO oaks DOCUMENTS ({'_id': 0, 'n': 0})", on: projection)
            try await body(bench, projection)
            await projection.close()
            await projections.close()
        }
    }

    private static let positions = """
        SELECT g."offset"::text FROM mimeo_projection.databases d
        JOIN mimeo_projection.generations g ON g.number = d.generation
        """

    @Test("a write waits twice, for its documents and for one commit; so does a group of sixteen")
    func trips() async throws {
        try await Self.leading { bench, _ in
            let author = try Author(bench)
            let update = "UPDATE oaks SET n = n + 1 WHERE _id = 0"
            let group = (1...16).map { "INSERT INTO oaks DOCUMENTS ({'_id': \($0), 'n': 1})" }
            // At first statements are prepared, and tables looked up.
            for id in 20..<23 {
                try author.append(
                    try author.draft([update, "INSERT INTO oaks DOCUMENTS ({'_id': \(id)})"]))
            }
            for texts in [[update], group, group.map { $0 + " ON ID CONFLICT DO UPDATE" }] {
                let draft = try author.draft(texts)
                let written = try author.append(draft)
                #expect(draft.trips == 1, "\(texts[0])")
                #expect(written.trips == 1, "\(texts[0])")
                #expect(draft.requests.count == texts.count && draft.ride?.hasArrived == true)
                #expect(written.last.map { "\($0)" } == (try bench.sql(Self.positions).first))
                let commits = """
                    SELECT count(DISTINCT x)::text FROM (
                        SELECT xmin::text AS x FROM mimeo_log.operations WHERE "offset" = \(written.last ?? 0)
                        UNION SELECT xmin::text FROM mimeo_log.databases
                        UNION SELECT xmin::text FROM mimeo_projection.generations
                        UNION SELECT xmin::text FROM mimeo_g1.c1 WHERE "offset" = \(written.last ?? 0)
                    ) AS written
                    """
                #expect(try bench.sql(commits) == ["1"])
            }
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }

    @Test("random statements of two authors and a leader leave the fold of the log, with counts and indexes")
    func random() async throws {
        let seed = Depth.seed
        var random = SplitMix64(seed: seed)
        try await Self.leading { bench, projection in
            try await IndexBuildTests.define("by_n", ["n"], of: "oaks", on: projection, bench)
            try await IndexBuildTests.define("by_hits", ["hits", "n"], of: "oaks", on: projection, bench)
            try await IndexBuildTests.settle(2, projection)
            let authors = [try Author(bench, actor: 77), try Author(bench, actor: 78)]
            var arrived = 0
            for _ in 0..<Depth.pick(fast: 60, deep: 2_000) {
                let id = Int.random(in: 0..<9, using: &random)
                let choice = Int.random(in: 0..<9, using: &random)
                let texts = [
                    "INSERT INTO oaks DOCUMENTS ({'_id': \(id), 'n': \(choice)}) ON ID CONFLICT DO UPDATE",
                    "UPDATE oaks APPLY hits INCREMENT BY \(choice) WHERE _id = \(id)",
                    "UPDATE oaks SET n = \(id), m.x = 'é' WHERE n >= \(choice)",
                    "DELETE FROM oaks WHERE _id = \(id)", "UPDATE oaks UNSET n WHERE _id <= \(id)",
                    "INSERT INTO `more-\(id % 3)` DOCUMENTS ({'_id': \(choice)}) ON ID CONFLICT DO UPDATE",
                ]
                let drawn = (0...choice % 3).map { texts[($0 + choice) % texts.count] }
                if choice == 8 { try await bench.append(drawn[0], on: projection) }
                if id == 0 || choice == 8 { try await projection.advance() }
                let author = authors[id % 2]
                let draft = try author.draft(drawn)
                if !draft.requests.isEmpty { try author.append(draft) }
                arrived += draft.ride?.hasArrived ?? false ? 1 : 0
                if draft.ride == nil { try await projection.advance() }
            }
            #expect(arrived > 10, "\(seed)")
            try await projection.advance()
            let stored = try bench.stored()
            #expect(stored == (try await bench.fold()), "\(seed)")
            let counted = "SELECT sum(documents)::text FROM mimeo_projection.collections"
            #expect(try bench.sql(counted) == ["\(stored.values.count { $0.isLive })"], "\(seed)")
            #expect(try await IndexBuildTests.faults(projection) == [], "\(seed)")
        }
    }

    @Test("while another one has the generation, or has moved it, nobody waits: a leader folds later")
    func refused() async throws {
        try await Self.leading { bench, projection in
            let author = try Author(bench)
            let update = "UPDATE oaks SET n = n + 1 WHERE _id = 0"
            let holder = try Connection(url: bench.url)
            let held = try author.draft([update])
            try holder.run("BEGIN; SELECT 1 FROM mimeo_projection.generations FOR UPDATE")
            #expect(try author.append(held).last == 2)
            #expect(held.ride?.hasArrived == false)
            #expect(try bench.sql(Self.positions) == ["1"])
            try holder.run("ROLLBACK")
            try await projection.advance()

            let late = try author.draft([update])
            try await bench.append("INSERT INTO oaks DOCUMENTS ({'_id': 5})", on: projection)
            #expect(try author.append(late).last == 4)
            #expect(late.ride?.hasArrived == false)
            #expect(try bench.sql(Self.positions) == ["2"])
            try await projection.advance()
            #expect(try bench.sql(Self.positions) == ["4"])

            let twice = try author.draft([update])
            try author.append(twice)
            #expect(twice.ride?.hasArrived == true)
            #expect(try author.append(twice).last == nil)
            try await projection.advance()
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }

    @Test("a document that somebody's SQL holds is waited for only a moment: the append goes alone")
    func heldDocument() async throws {
        try await Self.leading { bench, projection in
            let author = try Author(bench)
            let draft = try author.draft(["UPDATE oaks SET n = n + 1 WHERE _id = 0"])
            let holder = try Connection(url: bench.url)
            try holder.run("BEGIN; SELECT 1 FROM mimeo_g1.c1 FOR UPDATE")
            #expect(try author.append(draft).last == 2)
            #expect(draft.ride?.hasArrived == false)
            try holder.run("ROLLBACK")
            try await projection.advance()
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }

    @Test("while another generation is being built, only a leader folds")
    func building() async throws {
        try await Self.leading { bench, projection in
            let author = try Author(bench)
            let update = "UPDATE oaks SET n = n + 1 WHERE _id = 0"
            let former = try author.draft([update])
            let other = try Connection(url: bench.url)
            try other.run("UPDATE mimeo_projection.databases SET building = generation")
            #expect(try author.draft([update]).ride == nil)
            #expect(try author.append(former).last == 2)
            #expect(former.ride?.hasArrived == false)
            try other.run("UPDATE mimeo_projection.databases SET building = NULL")
            try await projection.advance()
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }

    @Test("a leader that adds an index locks the generation before all else, so nobody waits in a circle")
    func lockOrder() async throws {
        try await Self.leading { bench, projection in
            try await IndexBuildTests.define("by_n", ["n"], of: "oaks", on: projection, bench)
            try await IndexBuildTests.settle(1, projection)
            await projection.close()
            let holder = try Connection(url: bench.url)
            try holder.run("DELETE FROM mimeo_projection.indexes")
            try holder.run("BEGIN; SELECT 1 FROM mimeo_projection.generations FOR UPDATE")
            async let work = Self.align(bench)
            let waiting = "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while try bench.sql(waiting + " AND datname = current_database()") == ["0"] {
                try await Task.sleep(for: .milliseconds(5))
            }
            // As a ride that has the generation does.
            try holder.run("SELECT 1 FROM mimeo_projection.collections FOR UPDATE NOWAIT; ROLLBACK")
            try await work
            #expect(try bench.sql("SELECT count(*)::text FROM mimeo_projection.indexes") == ["1"])
        }
    }

    /// Makes the indexes that are defined, as the leader.
    private static func align(_ bench: ProjectionBench) async throws {
        _ = try session(bench).indexWork(isCurrentGood: true, isTaken: true)
    }

    @Test("a leader counts what rides have written, and does not replace a generation by one that is behind")
    func leader() async throws {
        try await Self.leading { bench, projection in
            await projection.close()
            try Connection(url: bench.url).run("ALTER TABLE mimeo_g1.c1 SET (autovacuum_enabled = false)")
            let session = try Self.session(bench, surveyedDocuments: 40)
            _ = try session.indexWork(isCurrentGood: true, isTaken: true)
            #expect(try session.look().current.position.offset == 1 && !session.hasIndexWork)
            try {
                let author = try Author(bench)
                for id in 1...50 {
                    let draft = try author.draft(["INSERT INTO oaks DOCUMENTS ({'_id': \(id), 'n': 1})"])
                    try author.append(draft)
                    #expect(draft.ride?.hasArrived == true)
                }
            }()
            // A connection that ends tells the server's statistics what it has written.
            let written = "SELECT (pg_stat_get_mod_since_analyze('mimeo_g1.c1'::regclass) > 40)::text"
            while try bench.sql(written) == ["false"] { try await Task.sleep(for: .milliseconds(10)) }
            #expect(try session.look().current.position.offset == 51)
            #expect(session.hasIndexWork)
            let start = try await bench.log.position(at: 0, in: ProjectionBench.database)
            _ = try session.startBuilding(at: try #require(start))
            #expect(try session.switchOver(isUrgent: false) == nil)
            #expect(try bench.sql("SELECT generation::text FROM mimeo_projection.databases") == ["1"])
            _ = try session.build(try await bench.log.read(ProjectionBench.database, after: 0))
            #expect(try session.switchOver(isUrgent: false)?.position.offset == 51)
        }
    }

    /// A session that leads.
    private static func session(
        _ bench: ProjectionBench, surveyedDocuments: Int = PostgresLimits.surveyedDocuments
    ) throws -> ProjectionSession {
        let session = try ProjectionSession(
            url: bench.url, database: ProjectionBench.database,
            start: LogPosition(logID: LogID.random(), offset: 0, hash: 0), logger: quiet,
            indexes: DefinedIndexes.projection, surveyedDocuments: surveyedDocuments)
        #expect(try session.look().isLeading)
        return session
    }

    @Test("a generation that readers have left takes nothing along, and the new one has everything")
    func replaced() async throws {
        try await Self.leading { bench, projection in
            let author = try Author(bench)
            let update = "UPDATE oaks SET n = n + 1 WHERE _id = 0"
            let former = try author.draft([update])
            try await projection.rebuild()
            let generation = "SELECT generation::text FROM mimeo_projection.databases"
            while try bench.sql(generation) == ["1"] { try await projection.advance() }
            #expect(try author.append(former).last == 2)
            #expect(former.ride?.hasArrived == false)
            try await projection.advance()
            let next = try author.draft([update])
            try author.append(next)
            #expect(next.ride?.hasArrived == true)
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }

    @Test("what only a leader may do is left to it: a table, definitions of indexes, many documents")
    func leftToLeader() async throws {
        try await Self.leading { bench, projection in
            let author = try Author(bench)
            for text in [
                "INSERT INTO new DOCUMENTS ({'_id': 1})", "INSERT INTO defined DOCUMENTS ({'_id': 1})",
                "INSERT INTO oaks DOCUMENTS ({'_id': 1}), ({'_id': 2})",
            ] {
                let draft = try author.draft([text])
                #expect((draft.ride == nil) == !text.contains("oaks"), "\(text)")
            }
            let many = (0..<PostgresLimits.batchDocuments + 1).map { "({'_id': 'm\($0)'})" }
            let texts = [
                "INSERT INTO oaks DOCUMENTS \(many.joined(separator: ", "))",
                "INSERT INTO oaks DOCUMENTS ({'_id': 'last'})",
            ]
            let draft = try author.draft(texts)
            #expect(draft.requests.count == 2 && draft.ride == nil)
            try author.append(draft)
            try await projection.advance()
            #expect(try bench.stored() == (try await bench.fold()))
        }
    }
}
