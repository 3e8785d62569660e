import Foundation

/// A small file that only its owner may read and that is replaced atomically: a reader sees the old content
/// or the new, also after a crash.
struct ProtectedFile: Sendable {
    let url: URL

    /// The content; nil when the file does not exist.
    var content: Data? { FileManager.default.contents(atPath: url.path) }

    /// Replaces the content; it is on disk when this returns. Creates the folder (0700) if it does not
    /// exist.
    func replace(with data: Data) throws {
        let manager = FileManager.default
        let folder = url.deletingLastPathComponent()
        let temporary = folder.appendingPathComponent(url.lastPathComponent + Self.unfinished)
        try manager.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try? manager.removeItem(at: temporary)
        // Not with `createFile`, which has a temporary file of its own: a crash would leave it under a name
        // that nobody knows.
        let descriptor = open(temporary.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try handle.write(contentsOf: data)
        try handle.synchronize()
        try handle.close()
        guard rename(temporary.path, url.path) == 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    /// The end of the name of a file that is being written: left over if a crash came in between.
    static let unfinished = ".new"

    /// Removes the file if it exists.
    func remove() { try? FileManager.default.removeItem(at: url) }
}
