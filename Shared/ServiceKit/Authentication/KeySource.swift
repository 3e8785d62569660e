import Identity
import Synchronization

/// A source of the databases' public keys for an `Authenticator`.
public protocol KeySource: Sendable {
    /// Called when a token names an unknown key.
    /// - Returns: the current keys.
    /// - Throws: `SRV-0601` when they cannot be fetched.
    func refreshedKeys() async throws -> KeySet
}

/// Keys handed over within the process: in `mimeo serve`, and in the auth-gateway for itself.
public final class InMemoryKeySource: KeySource {
    private let keys: Mutex<KeySet>

    /// A source of the given keys.
    public init(_ keys: KeySet = KeySet()) { self.keys = Mutex(keys) }

    /// Adds a key, or replaces the one with the same id.
    public func insert(_ key: DatabasePublicKey) { keys.withLock { $0.insert(key) } }

    /// The current keys.
    public var current: KeySet { keys.withLock { $0 } }

    /// The current keys.
    public func refreshedKeys() async throws -> KeySet { current }
}
