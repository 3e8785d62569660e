import CRDT
import DQL
import Foundation
import OperationLog
import Testing

@testable import Postgres

@Suite(
    "What a projection in PostgreSQL refuses",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct ProjectionErrorPostgresTests {
    @Test("codes are unique, and each is asked for by name or number in a test")
    func named() throws {
        let codes = ProjectionErrorCode.allCases
        #expect(Set(codes.map(\.rawValue)).count == codes.count)
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let texts = try ["PostgresTests/Projection", "QueryServiceTests"].flatMap { folder in
            try FileManager.default.contentsOfDirectory(
                at: tests.appendingPathComponent(folder), includingPropertiesForKeys: nil
            ).filter { $0.pathExtension == "swift" }.map { try String(contentsOf: $0, encoding: .utf8) }
        }
        let missing = codes.filter { code in
            !texts.contains { $0.contains(".\(code)") || $0.contains("\"\(code.rawValue)\"") }
        }
        #expect(missing == [])
    }

    @Test("a state that is not there yet, a closed projection, a statement that the server refuses")
    func reads() async throws {
        try await ProjectionBench.run { bench in
            let closed = try await bench.projecting { projection in
                let refusal1 = await code { try await projection.read(from: 9) { _ in } }
                #expect(refusal1 == .notReady)
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 1})", on: projection)
                try Connection(url: bench.url).run("DROP TABLE mimeo_g1.c1 CASCADE")
                let scan = await code { _ = try await bench.rows("SELECT * FROM c", on: projection) }
                #expect(scan == .storageFailed)
                return projection
            }
            let refusal2 = await code { try await closed.read { _ in } }
            #expect(refusal2 == .closed)
            let refusal3 = await code { try await closed.advance() }
            #expect(refusal3 == .closed)
            #expect(await closed.wait(for: 9, timeout: .seconds(60)) == false)
            let busy = OperationLogError(.overloaded, "as the lanes say it")
            #expect((ProjectionError.translated(busy) as? ProjectionError)?.code == .overloaded)
        }
    }

    @Test("a role that may not create schemas is told why, and gets on once it may")
    func withoutRights() async throws {
        try await ProjectionBench.run { bench in
            let admin = try Connection(url: bench.url)
            let role = "reader_\(UUID().uuidString.prefix(8).lowercased())"
            var address = try #require(URLComponents(string: bench.url))
            let database = String(address.path.dropFirst())
            address.user = role
            try admin.run("CREATE ROLE \(role) LOGIN")
            defer {
                #expect(throws: Never.self) { try admin.run("DROP OWNED BY \(role); DROP ROLE \(role)") }
            }
            let projections = PostgresProjections(url: try #require(address.string), logger: quiet)
            let refusal = await code {
                _ = try await projections.open(ProjectionBench.database, log: bench.log)
            }
            #expect(refusal == .cannotOpen)
            #expect(try bench.sql("SELECT to_regnamespace('mimeo_projection')::text") == ["NULL"])
            try admin.run("GRANT CREATE ON DATABASE \(database) TO \(role)")
            let projection = try await projections.open(ProjectionBench.database, log: bench.log)
            try await projection.advance()
            #expect(try await bench.rows("SELECT * FROM c", on: projection) == [])
            await projection.close()
            await projections.close()
        }
    }

    @Test("a right that is taken away: what needs it is refused or waits, and comes back when it is granted")
    func lostRights() async throws {
        try await ProjectionBench.run { bench in
            let admin = try Connection(url: bench.url)
            let role = "writer_\(UUID().uuidString.prefix(8).lowercased())"
            var address = try #require(URLComponents(string: bench.url))
            let database = String(address.path.dropFirst())
            address.user = role
            try admin.run("CREATE ROLE \(role) LOGIN; GRANT CREATE ON DATABASE \(database) TO \(role)")
            defer {
                #expect(throws: Never.self) { try admin.run("DROP OWNED BY \(role); DROP ROLE \(role)") }
            }
            try await bench.projecting(as: address.string) { projection in
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})", on: projection)
                try await IndexBuildTests.define("first", ["a"], on: projection, bench)
                try await IndexBuildTests.define("spare", ["a", "b"], on: projection, bench)
                try await IndexBuildTests.settle(2, projection)
                try admin.run("REVOKE CREATE ON DATABASE \(database) FROM \(role)")
                try await Self.withoutSchemas(bench, projection)
                try admin.run("REVOKE CREATE ON SCHEMA mimeo_g1 FROM \(role)")
                try await withoutTables(bench, projection)
                try admin.run(
                    "GRANT CREATE ON SCHEMA mimeo_g1 TO \(role); "
                        + "GRANT CREATE ON DATABASE \(database) TO \(role)")
                try await Self.recovered(bench, projection)
            }
        }
    }

    /// A new collection needs no right on the database; a rebuild does, and waits for it.
    private static func withoutSchemas(
        _ bench: ProjectionBench, _ projection: PostgresProjection
    ) async throws {
        try await bench.execute("INSERT INTO d DOCUMENTS ({'_id': 1})", on: projection)
        try await projection.rebuild()
        for number in 2..<5 {
            try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 'a': 1})", on: projection)
        }
        #expect(try bench.sql("SELECT max(generation)::text FROM mimeo_projection.databases") == ["1"])
        #expect(await projection.failure == nil)
    }

    /// The tables of new collections, and indexes, need a right on the schema.
    private func withoutTables(_ bench: ProjectionBench, _ projection: PostgresProjection) async throws {
        let refusal = await code {
            try await bench.append("INSERT INTO e DOCUMENTS ({'_id': 1})", on: projection)
        }
        #expect(refusal == .rightMissing)
        try await IndexBuildTests.define("second", ["b"], on: projection, bench)
        while await projection.indexFailure == nil { try await Task.sleep(for: .milliseconds(10)) }
        try await IndexBuildTests.define("third", ["a"], of: "later", on: projection, bench)
        try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 5, 'a': 1})", on: projection)
        let failure = await projection.indexFailure
        #expect(failure?.code == .rightMissing && failure?.reason.hasPrefix("PROJ-0205") == true)
        #expect(await projection.failure == nil)
        try await Self.isAskedRarely(bench, projection)
        // One is dropped all the same.
        try await bench.execute("DELETE FROM defined WHERE _id = ['c', 'spare']", on: projection)
        while try await projection.read({ try $0.indexes().contains { $0.name == "spare" } }) {
            try await Task.sleep(for: .milliseconds(10))
        }
        let rows = try await bench.rows("SELECT _id FROM c WHERE a = 1", on: projection)
        #expect(rows.count == 5)
        // A peer's write is in the log, whoever folds it: it waits, and says why.
        try await bench.append(ProjectionPostgresTests.insert(into: "peers", 0))
        let stuck = await code { try await projection.advance() }
        #expect(stuck == .rightMissing)
        #expect(await projection.failure?.hasPrefix("PROJ-0205") == true)
    }

    /// The table that an index lacks is not asked for with each write.
    private static func isAskedRarely(
        _ bench: ProjectionBench, _ projection: PostgresProjection
    ) async throws {
        let (start, pause) = (ContinuousClock.now, PostgresLimits.refusedComparisons)
        let numbers = "SELECT last_value::text FROM mimeo_projection.collections_number_seq"
        let before = try #require(Int(try bench.sql(numbers)[0]))
        for number in 0..<20 {
            try await bench.execute("UPDATE c SET n = \(number) WHERE _id = 1", on: projection)
        }
        let after = try #require(Int(try bench.sql(numbers)[0]))
        #expect(after - before <= 2 + Int((ContinuousClock.now - start) / pause))
    }

    private static func recovered(_ bench: ProjectionBench, _ projection: PostgresProjection) async throws {
        try await bench.catchUp(projection)
        try await bench.execute("INSERT INTO e DOCUMENTS ({'_id': 1})", on: projection)
        let generation = "SELECT max(generation)::text FROM mimeo_projection.databases"
        while try bench.sql(generation) == ["1"] { try await Task.sleep(for: .milliseconds(20)) }
        try await IndexBuildTests.settle(3, projection)
        #expect(try await IndexBuildTests.faults(projection) == [])
        #expect(await projection.failure == nil)
        for (collection, count) in [("c", 5), ("d", 1), ("e", 1), ("peers", 1)] {
            #expect(try await bench.rows("SELECT _id FROM \(collection)", on: projection).count == count)
        }
    }

    @Test("a log that holds what no fold can read is named, and the projection stays where it was")
    func brokenLog() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection in
                try await bench.execute("INSERT INTO c DOCUMENTS ({'_id': 1})", on: projection)
                _ = try await bench.log.append([record(77, 1)], to: ProjectionBench.database)
                let refusal4 = await code { try await projection.advance() }
                #expect(refusal4 == .brokenLog)
                #expect(await projection.failure?.contains("offset 2") == true)
                #expect(try await bench.rows("SELECT _id FROM c", on: projection) == [#"{"_id":1}"#])
            }
        }
    }

    @Test("drafts that are too large, and a name that no collection can have, leave nothing")
    func drafts() async throws {
        try await ProjectionBench.run { bench in
            try await bench.projecting { projection async throws in
                func refusal(of texts: [Int], in collection: CollectionName = "c") async
                    -> ProjectionErrorCode?
                {
                    await code {
                        _ = try await projection.draft(as: ActorID(1), sequence: 1, wallMilliseconds: 1) {
                            draft in
                            for (number, size) in texts.enumerated() {
                                try draft.edit(collection, .numbered(number)) {
                                    try $0.set(["t"], .string(String(repeating: "x", count: size)))
                                }
                            }
                        }
                    }
                }
                let hard = CRDT.Limits.documentHardLimitBytes
                #expect(await refusal(of: [hard]) == .documentTooLarge)
                #expect(await refusal(of: Array(repeating: hard - 1_000, count: 4)) == .transactionTooLarge)
                let long = String(repeating: "n", count: CRDT.Limits.collectionNameBytes + 1)
                #expect(await refusal(of: [1], in: CollectionName(long)) == .invalidCollection)
                #expect(await refusal(of: [1], in: "") == .invalidCollection)
                #expect(await refusal(of: [1]) == nil)
                #expect(try await bench.log.head(of: ProjectionBench.database).offset == 0)
            }
        }
    }

    @Test("a stored document that cannot be read is said so")
    func damaged() async throws {
        try await ProjectionBench.run { bench in
            let start = try #require(try await bench.log.position(at: 0, in: ProjectionBench.database))
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0))
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0, actor: 8))
            let entries = try await bench.log.read(ProjectionBench.database, after: 0)
            let session = try ProjectionSession(
                url: bench.url, database: ProjectionBench.database, start: start, logger: quiet)
            #expect(try session.look().isLeading)
            _ = try session.fold([entries[0]])
            try Connection(url: bench.url).run("UPDATE mimeo_g1.c1 SET state = '\\x00'")
            let refusal5 = await code { _ = try session.fold([entries[1]]) }
            #expect(refusal5 == .damaged)
        }
    }

    /// The code of the error that is thrown; nil when none is.
    private func code(_ body: () async throws -> Void) async -> ProjectionErrorCode? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? ProjectionError)?.code
        }
    }
}
