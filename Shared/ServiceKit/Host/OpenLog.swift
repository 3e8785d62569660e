import Foundation
import Logging
import OperationLog
import Postgres

extension ServiceConfiguration {
    /// Opens the operation log that the flags name, and creates its folder if necessary. Close the log after
    /// the host has ended. If PostgreSQL does not answer yet, waits for `PostgresLimits.startPatience`.
    /// - Throws: `SRV-0203` for the folder, `OperationLogError` for the file or server.
    public func openLog(logger: Logger) throws -> any OperationLog {
        // The data folder first: `folder()` creates it for its owner only, `openSQLite` would not.
        _ = try self.folder()
        switch log {
        case .postgres(let url):
            return try PostgresOperationLog.open(
                url: url, patience: PostgresLimits.startPatience, logger: logger)
        case .sqlite(let path): return try openSQLite(path, logger)
        }
    }

    /// The system database of a service's process, with the configured times without contact.
    /// - Throws: `SRV-0203`.
    public func systemDatabase(on log: any OperationLog, logger: Logger) throws -> SystemDatabase {
        SystemDatabase(
            log: log, folder: try folder("system"), contact: LogContact(contact),
            auditFolder: try folder("audit"), trustsProxy: behindProxy, logger: logger)
    }

    private func openSQLite(_ path: String, _ logger: Logger) throws -> any OperationLog {
        let file = URL(fileURLWithPath: path)
        let folder = file.deletingLastPathComponent().path
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw ServiceError(
                .dataFolderUnusable, "folder \(folder) cannot be created: \(error.localizedDescription)")
        }
        return try SQLiteOperationLog(path: file.path, logger: logger)
    }
}
