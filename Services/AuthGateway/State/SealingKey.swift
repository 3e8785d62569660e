import Foundation
import Logging

/// The key that the system database's secrets are sealed under, and while it is changed the one before it
/// (decision 0028): `secrets.key` and, beside it, `secrets.key.previous`.
///
/// The order of the steps is what makes a change safe to break off anywhere: the key there is gets its second
/// name before the new one takes its place, everything is sealed anew after that, and the previous one is
/// removed only when nothing is sealed under it. One at a time does any of that: whoever holds the lock.
struct SealingKey: Sendable {
    private let current: SecretFile
    private let previous: SecretFile

    init(path: String, isOwn: Bool) {
        current = SecretFile(path: path, isOwn: isOwn)
        previous = SecretFile(path: "\(path).previous", isOwn: isOwn)
    }

    var path: String { current.path }
    /// Whether there is a key, so that a new one would be another.
    var exists: Bool { current.exists || previous.exists }
    /// Whether a change is under way.
    var isChanging: Bool { previous.exists }

    /// The keys as they stand in the files; the first start makes one.
    /// - Throws: `AUTH-0501`, `AUTH-0504`.
    func box(logger: Logger) throws(AuthGatewayError) -> SecretBox {
        guard let earlier = try previous.read(logger: logger) else {
            return SecretBox(secret: try current.text(logger: logger))
        }
        // Beside a previous key a new one would be a third.
        guard let secret = try current.read(logger: logger) else {
            throw AuthGatewayError(.stateUnusable, "\(current.path) is not there, and its previous one is")
        }
        return SecretBox(secret: secret, previous: earlier == secret ? nil : earlier)
    }

    /// Nobody else changes the keys until this is released, here or in another process on these files.
    /// - Throws: `AUTH-0412` where somebody does, or the files are the configuration's.
    func lock() throws(AuthGatewayError) -> Lock {
        guard current.isOwn else {
            throw AuthGatewayError(
                .notPossible, "the key file is the configuration's: change it there, as the README says")
        }
        return try Lock(folder: (current.path as NSString).deletingLastPathComponent)
    }

    /// Puts a new key in place of the one there is, which becomes the previous one. Under the lock.
    /// - Throws: `AUTH-0412` where a change is under way already.
    func replace(logger: Logger) throws(AuthGatewayError) {
        let secret = try current.text(logger: logger)
        // One that was broken off before its second step is taken up again.
        guard try previous.read(logger: logger) ?? secret == secret else {
            throw AuthGatewayError(.notPossible, "the key before this one has to be removed first")
        }
        if !previous.exists { try current.copy(to: previous) }
        try current.replace(with: SecretFile.random())
    }

    /// Removes the previous key. Under the lock, when nothing is sealed under it.
    /// - Throws: `AUTH-0501`.
    func removePrevious() throws(AuthGatewayError) { try previous.remove() }

    /// The lock on a folder of keys: the system's, so that it ends with its process.
    final class Lock: Sendable {
        private let descriptor: Int32

        fileprivate init(folder: String) throws(AuthGatewayError) {
            descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else {
                throw AuthGatewayError(.stateUnusable, "the folder \(folder) cannot be opened")
            }
            // Never waited for: a thread of the pool would stand still.
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                throw AuthGatewayError(.notPossible, "somebody changes the key at this moment")
            }
        }

        deinit { if descriptor >= 0 { close(descriptor) } }
    }
}
