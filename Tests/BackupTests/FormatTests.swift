import CRDT
import Foundation
import Replica
import TestSupport
import Testing

@testable import Backup
@testable import OperationLog
@testable import Postgres

/// Stores of the formats that exist, as this version wrote them: `mimeo serve` with nine statements, backed
/// up and stopped, and `pg_dump --inserts` of the schemas. Later versions read them for ever.
@Suite("Formats of stored files")
struct FormatTests {
    private static let fixtures = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().appendingPathComponent("Fixtures")
    /// The database of the SQLite log and the backup, and its documents at the end.
    private static let database: DatabaseID = "d87dbdf9-98a2-4415-b8cc-b7f89f0b953c"
    private static let digest = "51416e044e215e925ad46a0a46e5891b"
    /// The same in PostgreSQL.
    private static let there: DatabaseID = "a3ddcfc2-df16-439d-a8ef-e8f64c11fe0e"
    private static let thereDigest = "ca33a4bc3d43c50938089ee7a0775803"

    /// Dumps of a log, and of a projection of it if there is one, and what they hold.
    struct Dump: Sendable, CustomTestStringConvertible {
        let log: String
        let projection: (file: String, position: Offset)?
        let database: DatabaseID
        let digest: String
        var testDescription: String { log }
    }

    /// The second has indexes: one that is whole, and definitions of them in the log.
    private static let dumps = [
        Dump(log: "log-5.sql", projection: nil, database: there, digest: thereDigest),
        Dump(
            log: "log-5-indexes.sql", projection: ("projection-2.sql", 8),
            database: "57a7427f-bf10-49f9-99af-7c10e55fbec7",
            digest: "01eb9422ec8b2f33a06ba50de6765d20"),
    ]

    @Test("each present format stands in the page on upgrades, and has files that this version wrote")
    func presentFormats() throws {
        let root = Self.fixtures.deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appendingPathComponent("Docs/upgrade.md"), encoding: .utf8)
        let (store, log) = (StoredStore.currentFormat, Int(LogSchema.currentVersion))
        let projection = ProjectionSchema.currentVersion
        #expect(PostgresLogSchema.currentVersion == log)
        for row in [
            "| a peer's store | \(store) |", "| log, SQLite and PostgreSQL | \(log) |",
            "| projection in PostgreSQL | \(projection) |", "| backups | \(Manifest.currentFormat) |",
        ] {
            #expect(page.contains(row), "\(row)")
        }
        let own = "Tests/BackupTests/Fixtures"
        for file in [
            "Tests/ReplicaTests/Fixtures/store-\(store)/replica.sqlite", "\(own)/log-\(log).sqlite",
            "\(own)/log-\(log).sql", "\(own)/projection-\(projection).sql",
            "\(own)/backup-\(Manifest.currentFormat)",
        ] {
            #expect(FileManager.default.fileExists(atPath: root.appendingPathComponent(file).path), "\(file)")
        }
    }

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
        "a PostgreSQL log and a projection are read from a dump, and the log goes on",
        .enabled(if: ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"] != nil), arguments: dumps)
    func postgres(dump: Dump) async throws {
        let server = try #require(ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"])
        let name = "format_\(UInt64.random(in: 1...UInt64.max))"
        var components = try #require(URLComponents(string: server))
        components.path = "/\(name)"
        let url = try #require(components.string)
        let administrator = try Connection(url: server)
        try administrator.run("CREATE DATABASE \(name)")
        defer { #expect(throws: Never.self) { try administrator.run("DROP DATABASE \(name) WITH (FORCE)") } }
        let connection = try Connection(url: url)
        for file in [dump.log, dump.projection?.file].compactMap(\.self) {
            try connection.run(
                try String(contentsOf: Self.fixtures.appendingPathComponent(file), encoding: .utf8))
        }
        let log = try PostgresOperationLog(url: url, logger: Author.quiet)
        try await Place.use { place in
            var collections: [CollectionName: FoldDigest] = [:]
            let position = try ProjectionSnapshot.readAll(dump.database, url: url) { row in
                collections[row.key.collection, default: FoldDigest()].add(
                    SnapshotDocument(key: row.key, isLive: row.isLive, offset: 0, state: row.state))
            }
            let projected = position.map { ProjectedDigests(position: $0, collections: collections) }
            let result = try await LogVerifier(log, scratch: place.folder.path, logger: Author.quiet)
                .verify(dump.database, projected: projected)
            #expect(result.findings.isEmpty && result.digest?.text == dump.digest)
            #expect(result.projection == dump.projection?.position)
        }
        try await Self.goesOn(log, dump.database)
        await log.close()
    }

    private static func goesOn(_ log: any OperationLog, _ database: DatabaseID) async throws {
        let head = try await log.head(of: database).offset
        let operation = Operation(actor: ActorID(4_711), sequence: 1, timestamp: 1 << 60, changes: [])
        let outcome = try await log.append([AppendRequest(operation, authorKey: "key")], to: database)
        #expect(outcome == [.appended(offset: head.next)])
    }
}
