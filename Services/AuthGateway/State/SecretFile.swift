import Foundation
import Identity
import Logging

/// A secret of 32 random bytes in its own file, as base64url text: the key that seals the system database's
/// secrets, and the credential of the admin API.
///
/// A file that the gateway makes is readable by its owner only (folder 0700, file 0600), and must stay so. A
/// file that the configuration names may be readable by others, as a container's secrets are; then a warning
/// is logged.
struct SecretFile: Sendable {
    let path: String
    let isOwn: Bool

    /// True if the file exists.
    var exists: Bool { FileManager.default.fileExists(atPath: path) }

    /// The secret's text, made on the first start. If several gateways start at once, one makes it and all
    /// read it from the file.
    /// - Throws: `AUTH-0501` if the file cannot be read or written, `AUTH-0504` if others may read the
    ///   gateway's own file, or the secret is too short.
    func text(logger: Logger) throws(AuthGatewayError) -> String {
        if let text = try read(logger: logger) { return text }
        guard isOwn else { throw AuthGatewayError(.stateUnusable, "\(path) does not exist") }
        try make()
        guard let text = try read(logger: logger) else {
            throw AuthGatewayError(.stateUnusable, "\(path) does not exist")
        }
        return text
    }

    /// The secret's text; nil if there is no such file.
    /// - Throws: as `text`.
    func read(logger: Logger) throws(AuthGatewayError) -> String? {
        guard let content = FileManager.default.contents(atPath: path) else {
            guard !exists else { throw AuthGatewayError(.stateUnusable, "\(path) cannot be read") }
            return nil
        }
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        if let mode = attributes?[.posixPermissions] as? Int, mode & 0o077 != 0 {
            guard !isOwn else {
                throw AuthGatewayError(.secretUnsafe, "others can read \(path); set its mode to 0600")
            }
            logger.warning("others on this machine can read the secret in \(path)")
        }
        let text = String(decoding: content, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard text.utf8.count >= Limits.secretCharacters else {
            throw AuthGatewayError(
                .secretUnsafe,
                "the secret in \(path) is too short: it needs \(Limits.secretCharacters) characters or more")
        }
        return text
    }

    /// Makes the file unless it exists by now.
    private func make() throws(AuthGatewayError) { try write(Self.random(), replaces: false) }

    /// Replaces the secret atomically: after a crash the file holds the old or the new one.
    func replace(with secret: String) throws(AuthGatewayError) { try write(secret, replaces: true) }

    /// Gives the file a second name, unless a file of that name exists.
    func copy(to other: SecretFile) throws(AuthGatewayError) {
        guard link(path, other.path) == 0 || errno == EEXIST else {
            throw AuthGatewayError(.stateUnusable, "\(other.path) cannot be written")
        }
        try syncFolder()
    }

    /// Removes the file.
    func remove() throws(AuthGatewayError) {
        guard unlink(path) == 0 || errno == ENOENT else {
            throw AuthGatewayError(.stateUnusable, "\(path) cannot be removed")
        }
        try syncFolder()
    }

    /// Writes a temporary file, and then gives it this name.
    private func write(_ secret: String, replaces: Bool) throws(AuthGatewayError) {
        let temporary = "\(path).\(Self.random())"
        defer { unlink(temporary) }
        do {
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
            guard FileManager.default.createFile(atPath: temporary, contents: nil, attributes: attributes),
                let file = FileHandle(forWritingAtPath: temporary)
            else { throw CocoaError(.fileWriteUnknown) }
            try file.write(contentsOf: Data("\(secret)\n".utf8))
            try file.synchronize()
            try file.close()
            guard
                replaces
                    ? rename(temporary, path) == 0 : link(temporary, path) == 0 || errno == EEXIST
            else { throw CocoaError(.fileWriteUnknown) }
        } catch {
            throw AuthGatewayError(.stateUnusable, "\(path) cannot be written: \(error.localizedDescription)")
        }
        try syncFolder()
    }

    private func syncFolder() throws(AuthGatewayError) {
        let folder = open((path as NSString).deletingLastPathComponent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { close(folder) }
        guard folder >= 0, fsync(folder) == 0 else {
            throw AuthGatewayError(.stateUnusable, "the folder of \(path) cannot be synced to disk")
        }
    }

    /// 256 random bits as text.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Makes a folder that only its owner can use.
    /// - Throws: `AUTH-0501`.
    static func makeFolder(_ folder: String) throws(AuthGatewayError) {
        do {
            let manager = FileManager.default
            try manager.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder)
        } catch {
            throw AuthGatewayError(
                .stateUnusable, "folder \(folder) cannot be created: \(error.localizedDescription)")
        }
    }
}
