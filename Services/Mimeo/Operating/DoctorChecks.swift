import AttachmentStore
import Backup
import CRDT
import Foundation
import Logging
import OperationLog
import Postgres
import ServiceKit

/// The data folder, its disks and the sealing key.
struct FileChecks {
    private let resolved: LogPlace.Resolved
    private let key: String

    init(_ resolved: LogPlace.Resolved, secretsKey: String?) {
        self.resolved = resolved
        key = resolved.secretsKey(secretsKey)
    }

    func run() -> [DoctorFinding] {
        let data = resolved.data
        guard FileManager.default.fileExists(atPath: data) else {
            return [
                DoctorFinding(
                    .dataMissing, .note, data, "the folder does not exist; a server would begin a new one",
                    "check --data, or start the server")
            ]
        }
        var folders = [data]
        if case .sqlite(let path) = resolved.log {
            folders.append(URL(fileURLWithPath: path).deletingLastPathComponent().path)
        }
        return rights(data)
            + Set(folders).sorted().flatMap {
                Self.room($0, DiskRoom.measured($0)) + Self.pace($0, DiskProbe.run($0))
            } + keys()
    }

    private func rights(_ data: String) -> [DoctorFinding] {
        let remedy = "chown it to the server's user and chmod it to 0700"
        // A disk that is read-only is told as such.
        guard access(data, R_OK | W_OK | X_OK) == 0 || errno == EROFS else {
            return [DoctorFinding(.dataRights, .error, data, "this user cannot write into it", remedy)]
        }
        return Self.isOpen(data)
            ? [DoctorFinding(.dataRights, .warning, data, "others can read the folder", remedy)] : []
    }

    /// Returns whether others than the owner have rights.
    static func isOpen(_ path: String) -> Bool {
        let facts = try? FileManager.default.attributesOfItem(atPath: path)
        return ((facts?[.posixPermissions] as? Int) ?? 0) & 0o077 != 0
    }

    static func room(_ folder: String, _ room: DiskRoom.Room?) -> [DoctorFinding] {
        guard let room, room.totalBytes > 0 else { return [] }
        let percent = Int(Double(room.freeBytes) / Double(room.totalBytes) * 100)
        let text = "\(percent) % of the disk are free (\(room.freeBytes >> 20) MiB)"
        switch percent {
        case ..<5:
            return [
                DoctorFinding(
                    .diskNearlyFull, .error, folder, text,
                    "make room: writes are refused while less than --disk-reserve-percent is free")
            ]
        case ..<20:
            return [
                DoctorFinding(
                    .diskFilling, .warning, folder, text, "enlarge the disk, or set --log-max-bytes")
            ]
        default: return []
        }
    }

    static func pace(_ folder: String, _ disk: DiskProbe?) -> [DoctorFinding] {
        switch disk {
        case nil: []
        case .readOnly:
            [
                DoctorFinding(
                    .diskReadOnly, .error, folder, "the disk is mounted read-only",
                    "look into the kernel's log (dmesg), check the file system, and mount it again")
            ]
        case .sync(let time) where time >= .milliseconds(250):
            [
                DoctorFinding(
                    .diskSlow, time >= .seconds(1) ? .error : .warning, folder,
                    "a sync to the disk takes \(Int(time / .milliseconds(1))) ms; each commit waits for one",
                    "look for what else uses the disk (iostat, pidstat -d), or take a faster one")
            ]
        case .sync: []
        }
    }

    private func keys() -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        let isThere = FileManager.default.fileExists(atPath: key)
        let hasLog =
            if case .sqlite(let path) = resolved.log { FileManager.default.fileExists(atPath: path) } else {
                false
            }
        if !isThere, hasLog {
            findings.append(
                DoctorFinding(
                    .keyUnusable, .error, key, "the log exists and its sealing key does not",
                    "restore the file, with mimeo restore --passphrase-file"))
        }
        if isThere, Self.isOpen(key) {
            findings.append(
                DoctorFinding(
                    .keyUnusable, .error, key, "others can read the sealing key",
                    "chmod it to 0600 and change the key: somebody may have read it"))
        }
        if FileManager.default.fileExists(atPath: "\(key).previous") {
            findings.append(
                DoctorFinding(
                    .keyChanging, .warning, key, "a change of the sealing key was not ended",
                    "end it with mimeo admin sealing-key forget, which removes the previous key"))
        }
        return findings
    }
}

/// A disk, tried with a file that has no name: nobody sees it, and the kernel removes it.
enum DiskProbe: Equatable {
    case readOnly
    /// The time of the fastest of some syncs after a page was written.
    case sync(Duration)

    private static let syncs = 5

    /// Nil where the folder cannot be written, or its file system knows no files without names.
    static func run(_ folder: String) -> DiskProbe? {
        // O_TMPFILE, which Swift does not import.
        let file = open(folder, 0o20000000 | O_DIRECTORY | O_WRONLY | O_CLOEXEC, 0o600)
        guard file >= 0 else { return errno == EROFS ? .readOnly : nil }
        defer { close(file) }
        let page = [UInt8](repeating: 1, count: 4_096)
        var fastest: Duration?
        for number in 0..<syncs {
            let begin = ContinuousClock.now
            guard pwrite(file, page, page.count, off_t(number * page.count)) == page.count,
                fdatasync(file) == 0
            else { return errno == EROFS ? .readOnly : nil }
            let time = ContinuousClock.now - begin
            fastest = min(fastest ?? time, time)
        }
        return fastest.map { .sync($0) }
    }
}

/// The TLS certificate.
enum CertificateChecks {
    static func run(
        _ certificate: String, _ key: String, now: Int64 = Int64(Date().timeIntervalSince1970)
    ) -> [DoctorFinding] {
        look(
            at: certificate, now: now, "renew it; the server reads the files again by itself",
            "give the chain and the key that belong together, both as PEM"
        ) { () throws(ServiceError) in try CertificateFile.end(certificate: certificate, key: key) }
    }

    /// The certificates that a URL of PostgreSQL names: ours as a client, and the authorities of its server.
    static func run(
        url: String, now: Int64 = Int64(Date().timeIntervalSince1970)
    ) -> [DoctorFinding] {
        // Not URLComponents, which knows one host only.
        let items = url.split(separator: "?", maxSplits: 1).dropFirst().first?.split(separator: "&") ?? []
        return ["sslcert=", "sslrootcert="].flatMap { name -> [DoctorFinding] in
            let path = items.last { $0.hasPrefix(name) }?.dropFirst(name.count).removingPercentEncoding
            guard let path, path != "system" else { return [] }
            return look(
                at: path, now: now, "renew it; each new connection to PostgreSQL reads the file",
                "correct sslcert or sslrootcert of the URL"
            ) { () throws(ServiceError) in
                try CertificateFile.end(of: path, areAuthorities: name == "sslrootcert=")
            }
        }
    }

    private static func look(
        at certificate: String, now: Int64, _ remedy: String, _ correction: String,
        _ end: () throws(ServiceError) -> Int64
    ) -> [DoctorFinding] {
        do {
            let end = try end()
            let days = Int((Double(end - now) / 86_400).rounded(.down))
            let text = days < 0 ? "the certificate has ended" : "the certificate ends in \(days) days"
            switch days {
            case ..<7: return [DoctorFinding(.certificateEnding, .error, certificate, text, remedy)]
            case ..<30: return [DoctorFinding(.certificateRenewal, .warning, certificate, text, remedy)]
            default: return []
            }
        } catch {
            return [
                DoctorFinding(
                    .certificateUnusable, .error, certificate, "\(error)", correction)
            ]
        }
    }
}

/// The bucket of attachments.
enum BucketChecks {
    static func run(_ address: BucketAddress) async -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        if FileChecks.isOpen(address.credentialsFile) {
            findings.append(
                DoctorFinding(
                    .bucketUnusable, .error, address.credentialsFile,
                    "others can read the bucket's credentials",
                    "chmod it to 0600 and change the credentials: somebody may have read them"))
        }
        if let problem = await BucketCheck.problem(of: address) {
            findings.append(
                DoctorFinding(
                    .bucketUnusable, .error, "\(address.origin)/\(address.bucket)", problem,
                    "check --attachment-bucket, its region, the credentials and what they allow"))
        }
        return findings
    }
}

/// The machine.
enum HostChecks {
    /// 2025-01-01: no build of this program is older.
    private static let earliest: Double = 1_735_689_600

    static func run(now: Double = Date().timeIntervalSince1970) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        if now < earliest {
            findings.append(
                DoctorFinding(
                    .clock, .error, "clock", "the machine's clock is years behind",
                    "set it and run a time service: tokens and certificates depend on it"))
        }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_max < 65_536 {
            findings.append(
                DoctorFinding(
                    .openFiles, .warning, "open files",
                    "a process may have \(limit.rlim_max) files open; each session takes one",
                    "raise the hard limit (LimitNOFILE, ulimit -Hn) to 65536 or more"))
        }
        return findings
    }
}

/// The log.
struct LogChecks {
    private let resolved: LogPlace.Resolved
    /// The URL of the bucket that the settings name.
    private let bucket: String?
    private let temporary: String

    init(_ resolved: LogPlace.Resolved, bucket: String?, temporary: String = NSTemporaryDirectory()) {
        (self.resolved, self.bucket, self.temporary) = (resolved, bucket, temporary)
    }

    /// Operations without a snapshot that are too many, if they are ten times what makes one due.
    static let unboundedOperations: UInt64 = 1_000_000
    /// Milliseconds that an operation may be ahead of the clock.
    private static let aheadMilliseconds: UInt64 = 300_000

    func run() async -> [DoctorFinding] {
        if case .sqlite(let path) = resolved.log, !FileManager.default.fileExists(atPath: path) { return [] }
        let logger = Logger(label: "mimeo.doctor")
        var findings: [DoctorFinding] = []
        do {
            if let format = try resolved.storedFormat(), format.isOlder {
                return [
                    DoctorFinding(
                        .logOlder, .warning, "log",
                        "it has format \(format.stored); the next start makes it \(format.current)",
                        "back up with the version that runs now, and stop all its instances before: "
                            + "they refuse the new format, and only the backup leads back")
                ]
            }
            try await resolved.with(name: "mimeo-doctor", logger: logger) { log in
                for database in try await log.databases() {
                    let found = try await look(at: database, log)
                    findings += found
                }
                let found = try await noted(log, logger)
                findings += found
            }
        } catch {
            findings.append(
                DoctorFinding(
                    .logUnusable, .error, "log", "\(error)",
                    "see Docs/damage.md; mimeo verify reads all of it, mimeo restore puts a backup back"))
        }
        return findings
    }

    /// Compares the buckets that the servers have noted.
    /// - Throws: the log's errors. Others are those of the temporary folder, a finding.
    private func noted(_ log: any OperationLog, _ logger: Logger) async throws -> [DoctorFinding] {
        do {
            let directory = try await SystemDirectory.read(from: log, in: temporary, logger: logger)
            return Self.places(directory?.attachmentBuckets.keys.sorted() ?? [], named: bucket)
        } catch let error where !(error is OperationLogError) && !SystemDirectory.isDamage(error) {
            return [
                DoctorFinding(
                    .temporaryFolder, .warning, temporary,
                    "the system database cannot be folded there, so its facts are not compared: \(error)",
                    "make room in it and let this user write there, or name another one with TMPDIR")
            ]
        }
    }

    /// Compares the bucket that the servers use with the one that the settings name.
    static func places(_ noted: [String], named: String?) -> [DoctorFinding] {
        noted.filter { $0 != named }.map {
            DoctorFinding(
                .bucketUnnamed, .warning, $0,
                "the servers keep attachments in this bucket, and these settings name "
                    + (named.map { "another one, \($0)" } ?? "none"),
                "give --attachment-bucket and its credentials; backups and checks need them too")
        }
    }

    private func look(at database: DatabaseID, _ log: any OperationLog) async throws -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        let head = try await log.head(of: database)
        let snapshot = try await log.snapshot(of: database)?.position.offset ?? 0
        let behind = head.offset.rawValue - min(head.offset.rawValue, snapshot.rawValue)
        if behind > Self.unboundedOperations {
            findings.append(
                DoctorFinding(
                    .logUnbounded, .warning, "database \(database)",
                    "\(behind) operations are not covered by a snapshot",
                    "set --snapshot-operations, and look why the replicator writes none"))
        }
        guard head.offset > (try await log.truncation(of: database).offset),
            let last = try await log.read(database, after: head.offset.previous).last
        else { return findings }
        let now = UInt64(max(0, Date().timeIntervalSince1970) * 1_000)
        let time = HybridClock.milliseconds(of: last.timestamp)
        if time > now + Self.aheadMilliseconds {
            findings.append(
                DoctorFinding(
                    .clock, .error, "database \(database)",
                    "its newest operation is \((time - now) / 1_000) s ahead of this machine's clock",
                    "check this machine's clock"))
        }
        return findings
    }
}

/// PostgreSQL's settings.
enum PostgresChecks {
    static func run(_ name: String, _ url: String) -> [DoctorFinding] {
        do {
            return judge(name, try ServerFacts(url: url))
        } catch {
            return [
                DoctorFinding(
                    .postgresUnusable, .error, name, "\(error)",
                    "check URL, server and pg_hba.conf; the user needs CONNECT and CREATE on the database")
            ]
        }
    }

    static func judge(_ name: String, _ facts: ServerFacts) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        let add = { (code: DoctorCode, severity: DoctorFinding.Severity, message: String, remedy: String) in
            findings.append(DoctorFinding(code, severity, "PostgreSQL of the \(name)", message, remedy))
        }
        if facts.version < 150_000 {
            add(.postgresUnusable, .error, "version \(facts.version / 10_000)", "use PostgreSQL 15 or newer")
        }
        if facts.isStandby {
            add(
                .postgresStandby, .error, "the server that answers is a standby",
                "name all hosts in the URL, with target_session_attrs=read-write")
        }
        for setting in ["fsync", "full_page_writes", "synchronous_commit"] where facts[setting] == "off" {
            add(
                .postgresDurability, name == "log" || setting != "synchronous_commit" ? .error : .note,
                "\(setting) is off: acknowledged writes can be lost", "set \(setting) to on")
        }
        if facts["server_encoding"] != "UTF8" {
            add(
                .postgresUnusable, .error, "the database's encoding is \(facts["server_encoding"] ?? "?")",
                "make one with ENCODING 'UTF8'")
        }
        if facts["data_checksums"] == "off" {
            add(.postgresSetting, .note, "pages have no checksums", "pg_checksums --enable, server down")
        }
        if facts["autovacuum"] == "off" {
            add(.postgresSetting, .warning, "autovacuum is off", "set autovacuum to on")
        }
        if facts.connections * 10 > facts.connectionLimit * 8 {
            add(
                .postgresSetting, .warning,
                "\(facts.connections) of \(facts.connectionLimit) connections are in use",
                "raise max_connections; each service needs up to 30")
        }
        for slot in facts.inactiveSlots {
            add(
                .postgresSlot, .warning,
                "the inactive replication slot \(slot.name) holds \(slot.bytes >> 20) MiB of write-ahead log",
                "start its standby, or drop it with pg_drop_replication_slot")
        }
        if facts.transactionAge > 1_000_000_000 {
            add(
                .postgresWraparound, .error, "\(facts.transactionAge) transactions since the last freeze",
                "VACUUM FREEZE, and look why autovacuum does not")
        }
        if abs(facts.clockDifferenceMilliseconds) > 2_000 {
            add(
                .postgresClock, .warning,
                "its clock differs by \(facts.clockDifferenceMilliseconds) ms from this machine's",
                "run a time service on both")
        }
        return findings
    }
}

/// The newest backup.
enum BackupChecks {
    private static let oldMilliseconds: UInt64 = 26 * 3_600_000

    static func run(
        _ path: String, now: UInt64 = UInt64(max(0, Date().timeIntervalSince1970) * 1_000)
    ) -> [DoctorFinding] {
        let remedy = "mimeo backup create, from a timer"
        guard let listed = try? BackupFolder(path).list(), let newest = listed.last else {
            return [DoctorFinding(.backupMissing, .error, path, "there is no backup", remedy)]
        }
        guard let manifest = try? newest.content.get() else {
            return [DoctorFinding(.backupMissing, .error, path, "\(newest.name) cannot be read", remedy)]
        }
        let age = now - min(now, manifest.createdAt)
        guard age > oldMilliseconds else { return [] }
        return [
            DoctorFinding(
                .backupOld, .warning, path, "the newest backup is \(age / 3_600_000) hours old", remedy)
        ]
    }
}
