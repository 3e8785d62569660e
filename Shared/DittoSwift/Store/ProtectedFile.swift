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
        let temporary = folder.appendingPathComponent(url.lastPathComponent + ".new")
        try manager.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try? manager.removeItem(at: temporary)
        let isMade = manager.createFile(
            atPath: temporary.path, contents: nil, attributes: [.posixPermissions: 0o600])
        guard isMade else { throw CocoaError(.fileWriteUnknown) }
        let handle = try FileHandle(forWritingTo: temporary)
        try handle.write(contentsOf: data)
        try handle.synchronize()
        try handle.close()
        guard rename(temporary.path, url.path) == 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    /// Removes the file if it exists.
    func remove() { try? FileManager.default.removeItem(at: url) }
}
