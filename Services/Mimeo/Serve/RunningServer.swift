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
        let note: Value = [
            "url": .string(url), "database": .string(database),
            "tokenFile": .string(tokenFile),
        ]
        // Nobody else serves from the folder as long as this file is locked, and the note replaces it:
        // whoever looks sees either no note or a whole one.
        guard let former = Self.locked(path) else { return nil }
        defer { close(former) }
        let text = Array((JSONText.print(note) + "\n").utf8)
        let new = "\(path).new"
        unlink(new)
        descriptor = open(new, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        let isWritten =
            fchmod(descriptor, 0o600) == 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0
            && text.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) } == text.count
            && rename(new, path) == 0
        guard isWritten else {
            close(descriptor)
            return nil
        }
    }

    /// Removes the note, unless another server's has taken its place.
    func end() {
        if Self.isAt(path, descriptor) { unlink(path) }
        close(descriptor)
    }

    /// The file at a path, made if it is missing, and locked; nil if another process keeps the lock.
    private static func locked(_ path: String) -> Int32? {
        for _ in 0..<Limits.noteLockTries {
            let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { return nil }
            // A server that stops removes the file, and one that starts replaces it, while it is open here.
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0, isAt(path, descriptor) { return descriptor }
            close(descriptor)
            // A client that looks holds the lock for a moment.
            usleep(Limits.noteLockPause)
        }
        return nil
    }

    /// True if the open file is the one at the path.
    private static func isAt(_ path: String, _ descriptor: Int32) -> Bool {
        var (open, named) = (stat(), stat())
        return fstat(descriptor, &open) == 0 && lstat(path, &named) == 0 && open.st_ino == named.st_ino
            && open.st_dev == named.st_dev
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
