import CRDT
import Identity

/// Whoever pays for work and memory: a credential in one database, or an address before there is a login.
public struct Account: Hashable, Sendable {
    private let name: String
    /// Nil for an address.
    private let database: DatabaseID?

    /// The account of a credential (`Identity.credential`).
    public init(_ credential: String, in database: DatabaseID) {
        name = credential
        self.database = database
    }

    /// The account of an identity.
    public init(_ identity: Identity) { self.init(identity.credential, in: identity.databaseID) }

    /// The account of a network address, for what comes before a login.
    public init(address: String) {
        name = address
        database = nil
    }
}
