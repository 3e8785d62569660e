import Foundation
import Logging
import OperationLog
import Postgres

extension ServiceConfiguration {
    /// Opens the operation log the flags name, and makes its folder if need be. Close it when the host has
    /// ended. A PostgreSQL that does not answer yet is waited for (`PostgresLimits.startPatience`).
    /// - Throws: `SRV-0203` for the folder, `OperationLogError` for the file or server.
    public func openLog(logger: Logger) throws -> any OperationLog {
        // The data folder first, so that it is ours alone also when the log is the first thing in it.
        _ = try self.folder()
        switch log {
        case .postgres(let url):
            return try PostgresOperationLog.open(
                url: url, patience: PostgresLimits.startPatience, logger: logger)
        case .sqlite(let path): return try openSQLite(path, logger)
        }
    }

    private func openSQLite(_ path: String, _ logger: Logger) throws -> any OperationLog {
        let file = URL(fileURLWithPath: path)
        let folder = file.deletingLastPathComponent().path
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw ServiceError(
                .dataFolderUnusable, "the folder \(folder) cannot be made: \(error.localizedDescription)")
        }
        return try SQLiteOperationLog(path: file.path, logger: logger)
    }
}
