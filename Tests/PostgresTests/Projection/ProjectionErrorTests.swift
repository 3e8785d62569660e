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
