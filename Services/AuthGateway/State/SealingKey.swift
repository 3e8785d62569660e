import Foundation
import Logging
import ServiceKit

/// The key that seals the system database's secrets, and during a change the previous one (decision 0028):
/// `secrets.key` and, beside it, `secrets.key.previous`.
///
/// A change may be interrupted anywhere, because of the order of its steps: the current key gets its second
/// name before the new one replaces it, then everything is resealed, and the previous key is removed only
/// when no secret is sealed under it. The lock lets one process at a time do this.
struct SealingKey: Sendable {
    private let current: SecretFile
    private let previous: SecretFile

    init(path: String, isOwn: Bool) {
        current = SecretFile(path: path, isOwn: isOwn)
        previous = SecretFile(path: "\(path).previous", isOwn: isOwn)
    }

    var path: String { current.path }
    /// True if there is a key. Then a new one must not be made.
    var exists: Bool { current.exists || previous.exists }
    /// True during a change.
    var isChanging: Bool { previous.exists }

    /// Reads the keys from their files; the first start makes one.
    /// - Throws: `AUTH-0501`, `AUTH-0504`.
    func box(logger: Logger) throws(AuthGatewayError) -> SecretBox {
        guard let earlier = try previous.read(logger: logger) else {
            return SecretBox(secret: try current.text(logger: logger))
        }
        // A previous key without a current one: a new key would be a third one.
        guard let secret = try current.read(logger: logger) else {
            throw AuthGatewayError(
                .stateUnusable, "\(current.path) is missing, but \(previous.path) exists; restore the former")
        }
        return SecretBox(secret: secret, previous: earlier == secret ? nil : earlier)
    }

    /// Locks the keys against changes by this and other processes on these files, until it is released.
    /// - Throws: `AUTH-0412` if somebody changes them now, or the configuration names the file.
    func lock() throws(AuthGatewayError) -> Lock {
        guard current.isOwn else {
            throw AuthGatewayError(
                .notPossible,
                "--secrets-key names the key file: change it by hand, see the README of AuthGateway")
        }
        return try Lock(folder: (current.path as NSString).deletingLastPathComponent)
    }

    /// Replaces the current key by a new one; the current key becomes the previous one. Needs the lock.
    /// - Throws: `AUTH-0412` during another change.
    func replace(logger: Logger) throws(AuthGatewayError) {
        let secret = try current.text(logger: logger)
        // A change that was interrupted before its second step is continued.
        guard try previous.read(logger: logger) ?? secret == secret else {
            throw AuthGatewayError(.notPossible, "remove the previous key first, to end the change before")
        }
        if !previous.exists { try current.copy(to: previous) }
        try current.replace(with: SecretFile.random())
    }

    /// Removes the previous key. Needs the lock; no secret may be sealed under that key.
    /// - Throws: `AUTH-0501`.
    func removePrevious() throws(AuthGatewayError) { try previous.remove() }

    /// The lock on a folder of keys, held by the operating system, so that it ends with its process.
    final class Lock: Sendable {
        private let descriptor: Int32

        fileprivate init(folder: String) throws(AuthGatewayError) {
            descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else {
                throw AuthGatewayError(.stateUnusable, "folder \(folder) cannot be opened")
            }
            // Does not wait, since waiting would block a thread of the pool.
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                throw AuthGatewayError(.notPossible, "somebody is changing the key now; try again shortly")
            }
        }

        deinit { if descriptor >= 0 { close(descriptor) } }
    }
}
