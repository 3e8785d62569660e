import CRDT
import Foundation
import Logging
import OperationLog
import ServiceKit

extension SystemDatabase {
    /// Runs a body on the system database of a log, for a command: its fold is in a temporary folder.
    static func once<Result>(
        of log: any OperationLog, logger: Logger, _ body: (SystemDatabase) async throws -> Result
    ) async throws -> Result {
        let folder = "\(NSTemporaryDirectory())/mimeo-notes-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let system = SystemDatabase(log: log, folder: "\(folder)/system", logger: logger)
        try await system.open()
        do {
            let result = try await body(system)
            await system.close()
            return result
        } catch {
            await system.close()
            throw error
        }
    }
}

/// The entry of a restored database under its new name, without which no server admits anybody to it.
struct RestoredEntry {
    let name: DatabaseID
    let log: any OperationLog
    let logger: Logger

    /// Refuses a name that a deleted database had: peers may still have documents of it.
    /// - Throws: `CLI-0101`.
    func check() async throws {
        guard name.isValid else {
            throw MimeoError(.usage, "--as is a database id: 1 to 128 letters, digits, '-' or '_'")
        }
        guard try await log.databaseExists(SystemDatabase.id) else { return }
        let known = try await SystemDatabase.once(of: log, logger: logger) {
            $0.directory.databases[name]
        }
        guard known?.deletedAtSeconds == nil else {
            throw MimeoError(.usage, "a deleted database had the id \(name), which is never used again")
        }
    }

    /// Enters the database, unless it is there. It has no development provider: whoever wants to read it
    /// makes an API key, or a provider.
    func make() async throws {
        let (name, now) = (name.text, Int64(Date().timeIntervalSince1970))
        try await SystemDatabase.once(of: log, logger: logger) { system in
            try await system.write { writer in
                guard try writer.get(name, as: DatabaseRecord.self) == nil else { return }
                try writer.put(DatabaseRecord(id: name, createdAtSeconds: now))
            }
        }
    }
}
