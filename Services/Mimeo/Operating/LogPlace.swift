import ArgumentParser
import Foundation
import Logging
import OperationLog
import Postgres
import ServiceKit

/// The storage of a server, for commands that work on it without the server: `--data`, `--log`, `--config`.
struct LogPlace: ParsableArguments {
    @Option(setting: "data") var data: String?
    @Option(setting: "log") var log: String?
    @Option(setting: "config") var config: String?

    /// The places that are used, all flags, variables and the file taken together.
    struct Resolved {
        /// The data folder.
        let data: String
        let log: StorageURL
        let sources: SettingSources

        /// The file of the sealing key.
        func secretsKey(_ flag: String?) -> String {
            flag ?? sources.text("secretsKey") ?? "\(data)/auth/secrets.key"
        }
    }

    /// - Throws: `SRV-0102`, `SRV-0104`, `SRV-0108`.
    func resolved() throws -> Resolved {
        let sources = try SettingSources(config: config)
        let data = self.data ?? sources.text("data") ?? Setting.named("data")?.byDefault ?? "."
        let log =
            try (self.log ?? sources.text("log")).map { try StorageURL($0, flag: "log") }
            ?? .sqlite(path: URL(fileURLWithPath: data).appendingPathComponent("log.sqlite").path)
        return Resolved(data: data, log: log, sources: sources)
    }
}

extension LogPlace.Resolved {
    /// Opens the log.
    /// - Parameters:
    ///   - creates: true to make one where there is none.
    ///   - name: the name under which PostgreSQL lists the connections.
    /// - Throws: `CLI-0601` for a missing log, `CLI-0602` for one of an older format, which stays as it is:
    ///   servers of the version that wrote it may be running. `OperationLogError`.
    func open(creates: Bool = false, name: String, logger: Logger) throws -> any RestorableLog {
        umask(0o077)
        if let format = try storedFormat(), format.isOlder {
            throw MimeoError(
                .logOlder,
                "the log has format \(format.stored), and this version would make it \(format.current); "
                    + "use the version that wrote it, or start a server of this one first")
        }
        switch log {
        case .postgres(let url):
            let mark = url.contains("?") ? "&" : "?"
            return try PostgresOperationLog(url: "\(url)\(mark)application_name=\(name)", logger: logger)
        case .sqlite(let path):
            guard creates || FileManager.default.fileExists(atPath: path) else {
                throw MimeoError(.logMissing, "there is no log \(path); name it with --log or --data")
            }
            if creates {
                let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
                try? FileManager.default.createDirectory(
                    at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            }
            return try SQLiteOperationLog(path: path, logger: logger)
        }
    }

    /// The log's format, read without a change; nil for a missing or empty log.
    func storedFormat() throws -> StoredFormat? {
        switch log {
        case .sqlite(let path): try SQLiteOperationLog.storedFormat(path: path)
        case .postgres(let url): try PostgresOperationLog.storedFormat(url: url)
        }
    }

    /// Runs a body with the log, and closes it afterwards.
    func with<Result>(
        creates: Bool = false, name: String, logger: Logger,
        _ body: (any RestorableLog) async throws -> Result
    ) async throws -> Result {
        let log = try open(creates: creates, name: name, logger: logger)
        do {
            let result = try await body(log)
            await log.close()
            return result
        } catch {
            await log.close()
            throw error
        }
    }
}
