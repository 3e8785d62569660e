import Identity
import Synchronization

/// Where an `Authenticator` gets the public keys of the databases.
public protocol KeySource: Sendable {
    /// Called when a token names a key that is not known.
    /// - Returns: the keys there are now.
    /// - Throws: `SRV-0601` when they cannot be had.
    func refreshedKeys() async throws -> KeySet
}

/// Keys that are handed over in the process: `mimeo serve`, and the auth-gateway for itself.
public final class InMemoryKeySource: KeySource {
    private let keys: Mutex<KeySet>

    /// A source of the given keys.
    public init(_ keys: KeySet = KeySet()) { self.keys = Mutex(keys) }

    /// Adds a key, or replaces the one of the same id.
    public func insert(_ key: DatabasePublicKey) { keys.withLock { $0.insert(key) } }

    /// The keys there are now.
    public var current: KeySet { keys.withLock { $0 } }

    /// The keys there are now.
    public func refreshedKeys() async throws -> KeySet { current }
}
