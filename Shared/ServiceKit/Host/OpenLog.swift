import Foundation
import Logging
import OperationLog
import Postgres
import Replica

extension ServiceConfiguration {
    /// Opens the operation log that the flags name, and creates its folder if necessary. Close the log after
    /// the host has ended. If PostgreSQL does not answer yet, waits for `PostgresLimits.startPatience`.
    ///
    /// From then on the log lines of this process have the configured form, and its traces are recorded.
    /// Its files are its owner's only, and those that are there become so. SQLite's temporary files lie in
    /// the data folder.
    /// - Parameter room: refuses appends while a disk is nearly full.
    /// - Throws: `SRV-0203` for the folder, `SRV-0204` for an empty log beside an older one's folders,
    ///   `OperationLogError` for the file or server.
    public func openLog(room: DiskRoom? = nil, logger: Logger) throws -> GuardedLog {
        umask(0o077)
        LogOutput.shared.form = logForm
        if let traces { Traces.begin(traces, service: logger.label, logger: logger) }
        // The data folder first: `folder()` creates it for its owner only, `openSQLite` would not.
        let data = try self.folder()
        try PrivateFiles.protect(dataFolder: data)
        try TemporaryFiles.lie(in: try folder(Self.temporaryName))
        if PrivateFiles.othersCanWrite(data) {
            logger.warning("others can write into the data folder \(data): give the server one of its own")
        }
        let name =
            switch log {
            case .postgres: "the operation log in PostgreSQL"
            case .sqlite(let path): "the operation log \(path)"
            }
        let old = beginsNewLog ? nil : OldInstallation(log: name, dataFolder: data)
        return GuardedLog(try openDriver(old, logger), room: room, old: old, logger: logger)
    }

    /// The disks that a service of this configuration writes to.
    public func diskRoom() -> DiskRoom {
        var folders = [URL(fileURLWithPath: dataFolder).path]
        var file: String?
        if case .sqlite(let path) = log {
            file = path
            folders.append(URL(fileURLWithPath: path).deletingLastPathComponent().path)
        }
        if case .sqlite(let path)? = projection { folders.append(URL(fileURLWithPath: path).path) }
        return DiskRoom(folders: Array(Set(folders)).sorted(), percent: diskReservePercent, logFile: file)
    }

    private func openDriver(_ old: OldInstallation?, _ logger: Logger) throws -> any OperationLog {
        switch log {
        case .postgres(let url):
            var options = PostgresOperationLog.Options()
            options.fence = try ServerFence(
                file: URL(fileURLWithPath: dataFolder).appendingPathComponent("postgres.mark").path)
            return try PostgresOperationLog.open(
                url: url, options: options, patience: PostgresLimits.startPatience, logger: logger)
        case .sqlite(let path): return try openSQLite(path, old, logger)
        }
    }

    /// The system database of a service's process, with the configured times without contact.
    /// - Throws: `SRV-0203`.
    public func systemDatabase(on log: any OperationLog, logger: Logger) throws -> SystemDatabase {
        SystemDatabase(
            log: log, folder: try folder("system"), contact: LogContact(contact),
            auditFolder: try folder("audit"), trustsProxy: behindProxy, logger: logger)
    }

    private func openSQLite(
        _ path: String, _ old: OldInstallation?, _ logger: Logger
    ) throws -> any OperationLog {
        let file = URL(fileURLWithPath: path)
        let folder = file.deletingLastPathComponent().path
        // Opening would create it.
        if let old, Self.isEmpty(file.path) { throw old.refusal }
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw ServiceError(
                .dataFolderUnusable, "folder \(folder) cannot be created: \(error.localizedDescription)")
        }
        for suffix in ["", "-wal", "-shm", "-wake", "-mark"] { try PrivateFiles.protect(file.path + suffix) }
        var options = SQLiteOperationLog.Options()
        options.onRecovery = { Measured.count("mimeo_log_recoveries_total") }
        return try SQLiteOperationLog(path: file.path, options: options, logger: logger)
    }

    private static func isEmpty(_ path: String) -> Bool {
        let size = (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? Int
        return size ?? 0 == 0
    }
}
