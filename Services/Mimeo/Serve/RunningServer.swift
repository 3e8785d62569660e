import CRDT
import Foundation
import ServiceKit

/// The note by which a server on this machine is found: `server.json` in its data folder, with its URL, its
/// development database and the file of that database's token.
///
/// The server holds a lock on the file while it runs, and removes the file at an orderly stop. A file without
/// a lock is what a server left that was killed, and counts for nothing. It also counts for nothing unless it
/// belongs to this user alone: a folder from elsewhere must not choose where a token is sent.
final class RunningServer: Sendable {
    private static let name = "server.json"
    private let path: String
    private let descriptor: Int32

    /// Writes the note of a server that listens; nil if another one serves from the folder, or the file
    /// cannot be written: clients then need flags.
    init?(folder: String, url: String, database: String, tokenFile: String) {
        path = "\(folder)/\(Self.name)"
        descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        let note: Value = [
            "url": .string(url), "database": .string(database),
            "tokenFile": .string(tokenFile),
        ]
        let text = Array((JSONText.print(note) + "\n").utf8)
        let isWritten =
            Self.lock(descriptor) && fchmod(descriptor, 0o600) == 0 && ftruncate(descriptor, 0) == 0
            && text.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) } == text.count
        guard isWritten else {
            close(descriptor)
            return nil
        }
    }

    /// Removes the note.
    func end() {
        unlink(path)
        close(descriptor)
    }

    /// A client that looks holds the lock for a moment.
    private static func lock(_ descriptor: Int32) -> Bool {
        for _ in 0..<Limits.noteLockTries {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
            usleep(Limits.noteLockPause)
        }
        return false
    }

    /// The settings of a client for the server that runs on a data folder: `url`, `database`, `tokenFile`;
    /// none if no server of this user does.
    static func settings(of folder: String) -> [String: String] {
        // A pipe of this name would have no writer to wait for.
        let descriptor = open("\(folder)/\(name)", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return [:] }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
            // A file system without locks says nothing about a server.
            status.st_mode & 0o077 == 0, flock(descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK
        else { return [:] }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
        guard let text = try? handle.read(upToCount: Limits.secretBytes),
            let note = try? JSONText.parse(Array(text)).objectValue
        else { return [:] }
        var settings: [String: String] = [:]
        for key in ["url", "database", "tokenFile"] {
            guard let value = note[key]?.stringValue else { return [:] }
            settings[key] = value
        }
        return settings
    }
}
