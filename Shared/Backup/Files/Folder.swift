import Foundation
import Glibc

/// System calls on files and folders, with errors of this module.
enum Folder {
    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Creates a folder for its owner only, with its parents.
    static func make(_ path: String) throws(BackupError) {
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw BackupError(.folderUnusable, "folder \(path) cannot be made: \(error.localizedDescription)")
        }
    }

    /// The names in a folder, sorted.
    static func names(_ path: String) throws(BackupError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: path).sorted()
        } catch {
            throw BackupError(.folderUnusable, "folder \(path) cannot be read")
        }
    }

    /// Syncs a folder, so that names in it are durable.
    static func sync(_ path: String) throws(BackupError) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("opened", path) }
        defer { Glibc.close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("synced", path) }
    }

    static func rename(_ path: String, to target: String) throws(BackupError) {
        guard Glibc.rename(path, target) == 0 else { throw failure("renamed to \(target)", path) }
    }

    /// Removes a folder with all that is in it.
    static func remove(_ path: String) throws(BackupError) {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            throw BackupError(.folderUnusable, "\(path) cannot be removed: \(error.localizedDescription)")
        }
    }

    /// Writes a small file durably.
    static func write(_ bytes: [UInt8], to path: String) throws(BackupError) {
        let file = try OutputFile(path)
        try file.write(bytes)
        _ = try file.finish()
    }

    /// A small file.
    static func read(_ path: String, limit: Int) throws(BackupError) -> [UInt8] {
        let file = try InputFile(path)
        var all: [UInt8] = []
        while let part = try file.read() {
            all += part
            guard all.count <= limit else { throw .damaged(path, "has more than \(limit) bytes") }
        }
        return all
    }

    static func failure(_ what: String, _ path: String) -> BackupError {
        let reason = String(cString: strerror(errno))
        return BackupError(.folderUnusable, "\(path) cannot be \(what): \(reason)")
    }
}

/// A lock on a folder, held by the operating system, so that it ends with its process.
final class FolderLock: Sendable {
    private let descriptor: Int32

    /// - Throws: `BAK-0102` at once if somebody has it.
    init(_ folder: String) throws(BackupError) {
        let path = "\(folder)/.lock"
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Folder.failure("opened", path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            Glibc.close(descriptor)
            throw BackupError(.folderBusy, "another process works in \(folder); try again when it has ended")
        }
    }

    deinit { Glibc.close(descriptor) }
}
