import CRDT
import Foundation
import OperationLog
import TestSupport
import Testing

@testable import Backup
@testable import Postgres

/// Stores of the formats that exist, as this version wrote them: `mimeo serve` with nine statements, backed
/// up and stopped, and `pg_dump --inserts` of the schemas. Later versions read them for ever.
@Suite("Formats of earlier versions")
struct FormatTests {
    private static let fixtures = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().appendingPathComponent("Fixtures")
    /// The database of the SQLite log and the backup, and its documents at the end.
    private static let database: DatabaseID = "d87dbdf9-98a2-4415-b8cc-b7f89f0b953c"
    private static let digest = "51416e044e215e925ad46a0a46e5891b"
    /// The same in PostgreSQL.
    private static let there: DatabaseID = "a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e"
    private static let thereDigest = "ca33a4bc3d43c50938089ee7a0775803"

    @Test("a backup of format 1 is verified, and restored to its offsets")
    func backup() async throws {
        try await Place.use { place in
            let folder = BackupFolder(Self.fixtures.appendingPathComponent("backup-1").path)
            let names = try folder.list().map(\.name)
            #expect(names.count == 2)
            let before = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            let results = try await BackupVerifier(folder, scratch: place.folder.path, logger: Author.quiet)
                .verify(names[1])
            #expect(results.filter { !$0.isCompared }.isEmpty)
            let log = try place.log("log")
            let report = try await Restorer(
                folder.path, Restorer.Options(), scratch: place.folder.path, logger: Author.quiet
            ).restore(into: log)
            #expect(report.databases.first { $0.name == Self.database }?.digest?.text == Self.digest)
            #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.path) == before)
        }
    }

    @Test("a SQLite log of format 5 is read, and goes on")
    func log() async throws {
        try await Place.use { place in
            let path = place.folder.appendingPathComponent("log.sqlite")
            try FileManager.default.copyItem(
                at: Self.fixtures.appendingPathComponent("log-5.sqlite"), to: path)
            let log = try place.log("log")
            #expect(try await log.databases().count == 3)
            let result = try await LogVerifier(log, scratch: place.folder.path, logger: Author.quiet)
                .verify(Self.database)
            #expect(result.findings.isEmpty && result.digest?.text == Self.digest)
            #expect(result.head == 10 && result.truncated == 8)
            try await Self.goesOn(log, Self.database)
        }
    }

    @Test(
        "a PostgreSQL log of format 5 and a projection of format 1 are read from a dump, and the log goes on",
        .enabled(if: ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"] != nil))
    func postgres() async throws {
        let server = try #require(ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"])
        let name = "format_\(UInt64.random(in: 1...UInt64.max))"
        var components = try #require(URLComponents(string: server))
        components.path = "/\(name)"
        let url = try #require(components.string)
        let administrator = try Connection(url: server)
        try administrator.run("CREATE DATABASE \(name)")
        defer { #expect(throws: Never.self) { try administrator.run("DROP DATABASE \(name) WITH (FORCE)") } }
        let connection = try Connection(url: url)
        for file in ["log-5.sql", "projection-1.sql"] {
            try connection.run(
                try String(contentsOf: Self.fixtures.appendingPathComponent(file), encoding: .utf8))
        }
        let log = try PostgresOperationLog(url: url, logger: Author.quiet)
        try await Place.use { place in
            var collections: [CollectionName: FoldDigest] = [:]
            let position = try ProjectionSnapshot.readAll(Self.there, url: url) { row in
                collections[row.key.collection, default: FoldDigest()].add(
                    SnapshotDocument(key: row.key, isLive: row.isLive, offset: 0, state: row.state))
            }
            let projected = ProjectedDigests(position: try #require(position), collections: collections)
            let result = try await LogVerifier(log, scratch: place.folder.path, logger: Author.quiet)
                .verify(Self.there, projected: projected)
            #expect(result.findings.isEmpty && result.digest?.text == Self.thereDigest)
            #expect(result.projection == 9)
        }
        try await Self.goesOn(log, Self.there)
        await log.close()
    }

    private static func goesOn(_ log: any OperationLog, _ database: DatabaseID) async throws {
        let head = try await log.head(of: database).offset
        let operation = Operation(actor: ActorID(4_711), sequence: 1, timestamp: 1 << 60, changes: [])
        let outcome = try await log.append([AppendRequest(operation, authorKey: "key")], to: database)
        #expect(outcome == [.appended(offset: head.next)])
    }
}
