import Backup
import CRDT
import Foundation
import Logging
import OperationLog
import Postgres
import TestSupport
import Testing

@testable import Mimeo
@testable import ServiceKit

@Suite("mimeo doctor")
struct DoctorTests {
    private static func healthy() -> ServerFacts {
        var facts = ServerFacts()
        (facts.version, facts.connectionLimit) = (150_004, 100)
        facts.settings = [
            "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "server_encoding": "UTF8",
            "data_checksums": "on", "autovacuum": "on",
        ]
        return facts
    }

    private static func codes(_ change: (inout ServerFacts) -> Void) -> [DoctorCode] {
        var facts = healthy()
        change(&facts)
        return PostgresChecks.judge("log", facts).map(\.code)
    }

    @Test("each wrong fact of a PostgreSQL server has its code, and a well server none")
    func postgres() {
        #expect(Self.codes { _ in } == [])
        #expect(Self.codes { $0.version = 140_009 } == [.postgresUnusable])
        #expect(Self.codes { $0.settings["server_encoding"] = "SQL_ASCII" } == [.postgresUnusable])
        #expect(Self.codes { $0.settings["fsync"] = "off" } == [.postgresDurability])
        #expect(Self.codes { $0.settings["synchronous_commit"] = "off" } == [.postgresDurability])
        #expect(Self.codes { $0.isStandby = true } == [.postgresStandby])
        #expect(Self.codes { $0.settings["autovacuum"] = "off" } == [.postgresSetting])
        #expect(Self.codes { $0.connections = 81 } == [.postgresSetting])
        #expect(Self.codes { $0.inactiveSlots = [.init(name: "s", bytes: 1)] } == [.postgresSlot])
        #expect(Self.codes { $0.transactionAge = 1_500_000_000 } == [.postgresWraparound])
        #expect(Self.codes { $0.clockDifferenceMilliseconds = -2_500 } == [.postgresClock])
        #expect(PostgresChecks.run("log", "postgres://127.0.0.1:1/x").map(\.code) == [.postgresUnusable])
    }

    @Test(
        "a real server's facts are read",
        .enabled(if: ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"] != nil))
    func facts() throws {
        let url = try #require(ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"])
        let facts = try ServerFacts(url: url)
        #expect(facts.version >= 150_000 && facts["server_encoding"] == "UTF8" && facts.connectionLimit > 0)
        #expect(abs(facts.clockDifferenceMilliseconds) < 2_000)
    }

    @Test("the doctor tells a disk that fills, a clock of long ago and missing backups")
    func host() throws {
        let room = { (free: Int64) in
            FileChecks.room("/d", .init(freeBytes: free, totalBytes: 1_000)).map(\.code)
        }
        #expect(room(30) == [.diskNearlyFull] && room(150) == [.diskFilling] && room(500) == [])
        #expect(HostChecks.run(now: 1_000).contains { $0.code == .clock })
        #expect(!HostChecks.run(now: 1_800_000_000).contains { $0.code == .clock })
        #expect(BackupChecks.run("/nowhere").map(\.code) == [.backupMissing])
    }

    @Test("a data folder and its keys: missing, open to others, without the key of its log")
    func files() throws {
        try withTemporaryDirectory { folder in
            let data = folder.appendingPathComponent("data")
            let findings = { (path: String) throws -> [DoctorFinding] in
                let place = LogPlace.Resolved(
                    data: path, log: .sqlite(path: "\(path)/log.sqlite"),
                    sources: try SettingSources(config: nil, environment: [:]))
                return FileChecks(place, secretsKey: nil).run().filter {
                    ![.diskFilling, .diskNearlyFull, .diskSlow].contains($0.code)
                }
            }
            let checks = { (path: String) throws -> [DoctorCode] in try findings(path).map(\.code) }
            #expect(try checks(data.path) == [.dataMissing])
            let manager = FileManager.default
            try manager.createDirectory(
                at: data.appendingPathComponent("auth"), withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            try manager.setAttributes([.posixPermissions: 0o755], ofItemAtPath: data.path)
            #expect(try checks(data.path) == [.dataRights])
            try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: data.path)
            #expect(try checks(data.path) == [])
            try Data().write(to: data.appendingPathComponent("log.sqlite"))
            #expect(try checks(data.path) == [.keyUnusable])
            let key = data.appendingPathComponent("auth/secrets.key")
            for file in [key.path, "\(key.path).previous"] {
                #expect(manager.createFile(atPath: file, contents: Data("k".utf8)))
                try manager.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            }
            #expect(try checks(data.path) == [.keyChanging])
            let remedy = try #require(try findings(data.path).first { $0.code == .keyChanging }).remedy
            #expect(remedy.hasPrefix("end it with mimeo admin sealing-key forget,"))
            #expect(AdminCall.routes.contains { $0.words == ["sealing-key", "forget"] })
            try manager.setAttributes([.posixPermissions: 0o644], ofItemAtPath: key.path)
            #expect(try checks(data.path) == [.keyUnusable, .keyChanging])
        }
    }

    @Test("a disk that is slow or read-only, and a bucket that only the servers name")
    func places() throws {
        let pace = { (probe: DiskProbe?) in FileChecks.pace("/d", probe).map(\.code) }
        #expect(pace(nil) == [] && pace(.sync(.milliseconds(249))) == [])
        #expect(pace(.readOnly) == [.diskReadOnly] && pace(.sync(.milliseconds(250))) == [.diskSlow])
        #expect(FileChecks.pace("/d", .sync(.milliseconds(999))).first?.severity == .warning)
        #expect(FileChecks.pace("/d", .sync(.seconds(1))).first?.severity == .error)
        #expect(DiskProbe.run("/nowhere") == nil)
        try withTemporaryDirectory { folder in
            #expect(DiskProbe.run(folder.path) != .readOnly)
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            #expect(names.isEmpty)
        }
        let codes = { (noted: [String], named: String?) in
            LogChecks.places(noted, named: named).map(\.code)
        }
        #expect(codes([], nil) == [] && codes([], "https://s/b") == [])
        #expect(codes(["https://s/b"], "https://s/b") == [])
        #expect(codes(["https://s/b"], nil) == [.bucketUnnamed])
        #expect(codes(["https://s/b"], "https://s/c") == [.bucketUnnamed])
    }

    @Test("a temporary folder that takes nothing is a finding beside those of the log")
    func temporaryFolder() async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let path = folder.appendingPathComponent("log.sqlite").path
            let log = try SQLiteOperationLog(path: path, logger: logger)
            let system = SystemDatabase(log: log, folder: "\(folder.path)/system", logger: logger)
            try await system.open()
            try await system.note(attachments: AttachmentBucketRecord(id: "https://s/b", region: "r"))
            await system.close()
            try await log.createDatabase("cars")
            // An hour ahead of this machine.
            let clock = UInt64(Date().timeIntervalSince1970 + 3_600) * 1_000
            let record = OperationRecord(
                actor: ActorID(1), sequence: SequenceNumber(1), timestamp: clock << 16, bytes: [1])
            _ = try await log.append(
                [AppendRequest(record: record, authorKey: "key", touches: [])], to: "cars")
            await log.close()
            let place = LogPlace.Resolved(
                data: folder.path, log: .sqlite(path: path),
                sources: try SettingSources(config: nil, environment: [:]))
            let well = await LogChecks(place, bucket: nil).run()
            #expect(well.map(\.code) == [.clock, .bucketUnnamed])
            let full = await LogChecks(place, bucket: nil, temporary: "/dev/null").run()
            #expect(full.map(\.code) == [.clock, .temporaryFolder])
        }
    }

    @Test("certificates that cannot be used have a code")
    func certificates() {
        #expect(CertificateChecks.run("/none.pem", "/none.key").map(\.code) == [.certificateUnusable])
    }

    @Test("the certificates that a URL of PostgreSQL names are looked at, whatever its hosts")
    func clientCertificates() throws {
        try withTemporaryDirectory { folder in
            let path = folder.appendingPathComponent("client.pem").path
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "40", "-subj", "/CN=mimeo", "-keyout", "/dev/null", "-out", path,
            ]
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            let now = Int64(Date().timeIntervalSince1970)
            let hosts = "postgres://mimeo@one:5432,two:5432/mimeo?target_session_attrs=read-write"
            let codes = { (parameters: String, days: Int64) in
                CertificateChecks.run(url: "\(hosts)&\(parameters)", now: now + days * 86_400).map(\.code)
            }
            #expect(codes("sslcert=\(path)&sslrootcert=system", 0) == [])
            #expect(codes("sslcert=\(path)", 20) == [.certificateRenewal])
            #expect(codes("sslrootcert=\(path)", 36) == [.certificateEnding])
            #expect(
                codes("sslcert=\(path)&sslrootcert=\(path)", 41) == [.certificateEnding, .certificateEnding])
            #expect(codes("sslcert=/none", 0) == [.certificateUnusable])
            let ended = CertificateChecks.run(url: "\(hosts)&sslcert=\(path)", now: now + 41 * 86_400)
            #expect(ended.first?.message == "the certificate has ended")
        }
    }

    @Test("each code stands in the page with its row")
    func page() throws {
        let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let doctor = try String(
            contentsOf: root.appendingPathComponent("Docs/doctor.md"), encoding: .utf8)
        #expect(DoctorCode.allCases.filter { !doctor.contains("`\($0.rawValue)`") } == [])
        let backup = try String(
            contentsOf: root.appendingPathComponent("Docs/backup.md"), encoding: .utf8)
        #expect(BackupErrorCode.allCases.filter { !backup.contains("`\($0.rawValue)`") } == [])
    }
}
