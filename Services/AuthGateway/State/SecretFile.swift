import Foundation
import Identity
import Logging

/// A secret of 32 random bytes in a file of its own, as base64url text: the key that the system database's
/// secrets are sealed under, and the credential of the admin API.
///
/// One that the gateway makes is its owner's alone (folder 0700, file 0600) and must stay so. One that was
/// named by the configuration may be readable for others (a container's secrets are), and that is warned of.
struct SecretFile: Sendable {
    let path: String
    let isOwn: Bool

    /// Whether there is one.
    var exists: Bool { FileManager.default.fileExists(atPath: path) }

    /// The secret's text, made on the first start. Of several first starts at one time one makes it: each
    /// reads what stands in the file then.
    /// - Throws: `AUTH-0501` when the file cannot be read or made, `AUTH-0504` when others may read what is
    ///   the gateway's own, or it is too short.
    func text(logger: Logger) throws(AuthGatewayError) -> String {
        if let text = try read(logger: logger) { return text }
        guard isOwn else { throw AuthGatewayError(.stateUnusable, "\(path) is not there") }
        try make()
        guard let text = try read(logger: logger) else {
            throw AuthGatewayError(.stateUnusable, "\(path) is not there")
        }
        return text
    }

    /// The secret's text; nil where there is no such file. Makes none.
    /// - Throws: as `text`.
    func read(logger: Logger) throws(AuthGatewayError) -> String? {
        guard let content = FileManager.default.contents(atPath: path) else {
            guard !exists else { throw AuthGatewayError(.stateUnusable, "\(path) cannot be read") }
            return nil
        }
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        if let mode = attributes?[.posixPermissions] as? Int, mode & 0o077 != 0 {
            guard !isOwn else {
                throw AuthGatewayError(.secretUnsafe, "others may read \(path); it must have mode 0600")
            }
            logger.warning("others on this machine may read the secret in \(path)")
        }
        let text = String(decoding: content, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard text.utf8.count >= Limits.secretCharacters else {
            throw AuthGatewayError(
                .secretUnsafe, "\(path) holds fewer than \(Limits.secretCharacters) characters")
        }
        return text
    }

    /// Makes one unless there is one by now.
    private func make() throws(AuthGatewayError) { try write(Self.random(), replaces: false) }

    /// Puts another secret in its place: after a crash there is the one or the other.
    func replace(with secret: String) throws(AuthGatewayError) { try write(secret, replaces: true) }

    /// Gives the secret a second name, unless there is a file of it already.
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

    /// Writes a file of another name whole, and gives it this name.
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
            throw AuthGatewayError(.stateUnusable, "the folder of \(path) cannot be synced")
        }
    }

    /// 256 random bits as text.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Makes a folder that is its owner's alone.
    /// - Throws: `AUTH-0501`.
    static func makeFolder(_ folder: String) throws(AuthGatewayError) {
        do {
            let manager = FileManager.default
            try manager.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder)
        } catch {
            throw AuthGatewayError(
                .stateUnusable, "the folder \(folder) cannot be made: \(error.localizedDescription)")
        }
    }
}
