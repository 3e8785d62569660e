import ArgumentParser
import AttachmentStore
import Backup
import CRDT
import Foundation
import Logging
import OperationLog
import Postgres
import ServiceKit

/// `mimeo doctor`: looks at the surroundings of a server, and says what to do.
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Check configuration, disks, clock, keys, certificates, PostgreSQL.",
        discussion: """
            Looks at what a server with these settings would use, changes nothing, and names what is wrong \
            and what to do, each with a code that Docs/doctor.md explains. Also useful before the first \
            start and before an upgrade. Exit code 1 if there is an error, with --strict also for warnings.
            """)

    @OptionGroup var place: LogPlace
    @Option(setting: "projection") var projection: String?
    @Option(setting: "secretsKey") var secretsKey: String?
    @Option(setting: "tlsCertificate") var tlsCertificate: String?
    @Option(setting: "tlsKey") var tlsKey: String?
    @OptionGroup var attachments: AttachmentBucketFlags
    @Option(
        help: ArgumentHelp("Look at the age of the newest backup in this folder.", valueName: "dir"),
        transform: GivenText.of("--backups"))
    var backups: String?
    @Flag(help: "Print a JSON object.")
    var json = false
    @Flag(help: "End with exit code 1 for warnings too.")
    var strict = false

    func run() async throws {
        var findings: [DoctorFinding] = []
        do {
            let resolved = try place.resolved()
            findings += FileChecks(resolved, secretsKey: secretsKey).run()
            findings += certificates(resolved)
            findings += HostChecks.run()
            let bucket = try attachments.address { flag, name in flag ?? resolved.sources.text(name) }
            findings += await LogChecks(resolved, bucket: bucket?.text).run()
            findings += postgres(resolved)
            if let bucket { findings += await BucketChecks.run(bucket) }
            if let backups { findings += BackupChecks.run(backups) }
        } catch let error as ServiceError {
            findings.append(
                DoctorFinding(
                    .configuration, .error, "configuration", "\(error)",
                    "correct the flag, the variable or the file that is named"))
        }
        show(findings)
        let worst = findings.map(\.severity).max() ?? .note
        if worst == .error || strict && worst == .warning { throw ExitCode(1) }
    }

    private func certificates(_ resolved: LogPlace.Resolved) -> [DoctorFinding] {
        let certificate = tlsCertificate ?? resolved.sources.text("tlsCertificate")
        let key = tlsKey ?? resolved.sources.text("tlsKey")
        switch (certificate, key) {
        case (nil, nil): return []
        case (let certificate?, let key?): return CertificateChecks.run(certificate, key)
        default:
            return [
                DoctorFinding(
                    .certificateUnusable, .error, "TLS", "--tls-certificate and --tls-key go together",
                    "set both")
            ]
        }
    }

    private func postgres(_ resolved: LogPlace.Resolved) -> [DoctorFinding] {
        var urls: [(String, String)] = []
        if case .postgres(let url) = resolved.log { urls.append(("log", url)) }
        if let text = projection ?? resolved.sources.text("projection"),
            case .postgres(let url)? = try? StorageURL(text, flag: "projection"), url != urls.first?.1
        {
            urls.append(("projection", url))
        }
        return urls.flatMap { CertificateChecks.run(url: $0.1) + PostgresChecks.run($0.0, $0.1) }
    }

    private func show(_ findings: [DoctorFinding]) {
        let count = { (severity: DoctorFinding.Severity) in findings.count { $0.severity == severity } }
        guard !json else {
            LineWriter.standardOutput.write([
                "well": .bool(count(.error) == 0), "errors": .int(Int64(count(.error))),
                "warnings": .int(Int64(count(.warning))), "findings": .array(findings.map(\.value)),
            ])
            return
        }
        for finding in findings.sorted(by: { $0.severity > $1.severity }) {
            LineWriter.standardOutput.write(text: finding.text)
        }
        LineWriter.standardOutput.write(
            text: "\(count(.error)) errors, \(count(.warning)) warnings, \(count(.note)) notes")
    }
}
