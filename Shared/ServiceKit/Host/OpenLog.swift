import Foundation
import Logging
import OperationLog

extension ServiceConfiguration {
    /// Opens the operation log the flags name, and makes its folder if need be. Close it when the host has
    /// ended.
    /// - Throws: `SRV-0203` for the folder, `OperationLogError` for the file.
    public func openLog(logger: Logger) throws -> any OperationLog {
        // The data folder first, so that it is ours alone also when the log is the first thing in it.
        _ = try self.folder()
        let file = URL(fileURLWithPath: log.sqlitePath)
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
