import Foundation
import Logging

/// The key that the system database's secrets are sealed under, and while it is changed the one before it
/// (decision 0028): `secrets.key` and, beside it, `secrets.key.previous`.
///
/// The order of the steps is what makes a change safe to break off anywhere: the key there is gets its second
/// name before the new one takes its place, everything is sealed anew after that, and the previous one is
/// removed only when nothing is sealed under it. What is read here is never older than the files.
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
        let secret = try current.text(logger: logger)
        let earlier = previous.exists ? try previous.text(logger: logger) : nil
        return SecretBox(secret: secret, previous: earlier == secret ? nil : earlier)
    }

    /// Puts a new key in place of the one there is, which becomes the previous one.
    /// - Throws: `AUTH-0412` where the files are the configuration's, or a change is under way already.
    func replace(logger: Logger) throws(AuthGatewayError) {
        guard current.isOwn else {
            throw AuthGatewayError(
                .notPossible,
                "the key file is the configuration's: give it the ending .previous, put another in its place")
        }
        let secret = try current.text(logger: logger)
        // One that was broken off before its second step is taken up again.
        let earlier = previous.exists ? try previous.text(logger: logger) : secret
        guard earlier == secret else {
            throw AuthGatewayError(.notPossible, "the key before this one has to be removed first")
        }
        if !previous.exists { try current.copy(to: previous) }
        try current.replace(with: SecretFile.random())
    }

    /// Removes the previous key. To be called when nothing is sealed under it.
    /// - Throws: `AUTH-0412`, `AUTH-0501`.
    func removePrevious() throws(AuthGatewayError) {
        guard current.isOwn else {
            throw AuthGatewayError(.notPossible, "the key file is the configuration's: remove it there")
        }
        try previous.remove()
    }
}
