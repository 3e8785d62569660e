import CRDT

/// Verifies access tokens against a replaceable key set, and remembers the accepted ones.
///
/// Invariants: every remembered token was accepted under a key that is still in the key set; the memory
/// holds at most `Limits.verifiedTokens` tokens. A value type without clock or lock: the owner guards it.
public struct TokenVerifier: Sendable {
    /// The trusted keys. Replacing them forgets the tokens of keys that are no longer in the set.
    public private(set) var keys: KeySet
    private var accepted: [String: Accepted] = [:]
    /// The compiled grants of accepted tokens. Many tokens share few roles.
    private var grants: [Grant: CompiledGrant] = [:]
    private let capacity: Int

    private struct Accepted: Sendable {
        var identity: Identity
        var keyID: KeyID
    }

    /// - Parameters:
    ///   - keys: the keys to start with.
    ///   - capacity: the number of accepted tokens to remember.
    public init(keys: KeySet = KeySet(), capacity: Int = Limits.verifiedTokens) {
        self.keys = keys
        self.capacity = capacity
    }

    /// Trusts these keys instead of the present ones.
    public mutating func replaceKeys(_ new: KeySet) {
        let old = keys
        keys = new
        accepted = accepted.filter {
            new[$0.value.keyID] != nil && new[$0.value.keyID] == old[$0.value.keyID]
        }
    }

    /// Verifies a token and returns its identity.
    /// - Parameters:
    ///   - token: untrusted text.
    ///   - databaseID: the database the caller is working on, when it knows one.
    ///   - nowSeconds: seconds since 1970.
    /// - Throws: as `AccessToken.verify`.
    public mutating func verify(
        _ token: String, databaseID: DatabaseID? = nil, nowSeconds: Int64
    ) throws(IdentityError) -> Identity {
        if let identity = try remembered(token, databaseID: databaseID, nowSeconds: nowSeconds) {
            return identity
        }
        let identity = try AccessToken.verify(
            token, keys: keys, databaseID: databaseID, nowSeconds: nowSeconds
        ) { (grant) throws(IdentityError) in
            if let compiled = grants[grant] { return compiled }
            let compiled = try CompiledGrant(grant)
            Self.makeRoom(in: &grants, for: Limits.compiledGrants)
            grants[grant] = compiled
            return compiled
        }
        remember(token, identity)
        return identity
    }

    /// Verifies the token of a signed URL. It is not remembered: hardly any is used twice.
    /// - Throws: as `AccessToken.verify`.
    public func verifyURL(
        _ token: String, attachment: String, nowSeconds: Int64
    ) throws(IdentityError) -> Identity {
        try AccessToken.verify(token, keys: keys, attachment: attachment, nowSeconds: nowSeconds)
    }

    /// The identity of a token that was accepted before and has not expired; nil for any other.
    public func remembered(_ token: String, nowSeconds: Int64) -> Identity? {
        guard let found = accepted[token], nowSeconds < found.identity.expiresAtSeconds else { return nil }
        return found.identity
    }

    /// Returns whether the set has the key that a token names; nil when the token names none that could be
    /// ours.
    public func knowsKey(of token: String) -> Bool? {
        if accepted[token] != nil { return true }
        guard let keyID = try? AccessToken.keyID(of: token) else { return nil }
        return keys[keyID] != nil
    }

    /// The number of remembered tokens.
    public var rememberedCount: Int { accepted.count }

    private mutating func remembered(
        _ token: String, databaseID: DatabaseID?, nowSeconds: Int64
    ) throws(IdentityError) -> Identity? {
        guard let found = accepted[token] else { return nil }
        guard nowSeconds < found.identity.expiresAtSeconds else {
            accepted[token] = nil
            throw .refused(.tokenExpired)
        }
        guard databaseID.map({ $0 == found.identity.databaseID }) ?? true else {
            throw .refused(.tokenDatabase)
        }
        return found.identity
    }

    private mutating func remember(_ token: String, _ identity: Identity) {
        guard capacity > 0, let keyID = identity.signedBy else { return }
        Self.makeRoom(in: &accepted, for: capacity)
        accepted[token] = Accepted(identity: identity, keyID: keyID)
    }

    /// Drops half of a full memory at once, in no particular order: one sweep for thousands of logins, and
    /// no order to maintain.
    private static func makeRoom<Key, Value>(in memory: inout [Key: Value], for capacity: Int) {
        guard memory.count >= capacity else { return }
        for key in memory.keys.prefix((capacity + 1) / 2) { memory[key] = nil }
    }
}
