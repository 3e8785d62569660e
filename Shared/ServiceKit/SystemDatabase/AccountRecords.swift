import CRDT
import Identity

/// An account of a provider of kind `accounts`. A name is one account's in its database, whichever provider
/// it signs in at: it is the user of tokens and revocations.
public struct AccountRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.accounts
    /// A hash of the database and of the form that all look-alikes of the name share, so that two names that
    /// look alike cannot both exist.
    public var id: String
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// The provider's name.
    public var provider: String
    /// In its normal form.
    public var name: String
    /// The address that mail goes to; nil without one.
    public var mail: String?
    /// The hash with its parameters and its salt; nil until the person has chosen a password.
    public var passwordHash: String?
    /// Own permissions; nil if `set` has them.
    public var permissions: Grant?
    /// The name of a set of permissions that many accounts share.
    public var set: String?
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// Seconds since 1970; from then on nobody signs in. Nil without an end.
    public var expiresAtSeconds: Int64?
    /// The secret of one-time codes, sealed; nil without a second factor.
    public var sealedSecondFactor: String?
    /// True once a code of it was given: from then on each login needs one.
    public var hasSecondFactor: Bool
    /// The last time step whose code was taken: a code counts once.
    public var lastCodeStep: Int64
    /// Networks from which the person signed in, the latest last: failures elsewhere do not lock them.
    public var networks: [String]
    /// The latest sessions, the oldest first.
    public var sessions: [AccountSession]

    /// A new account, without a password.
    public init(
        id: String, database: DatabaseID, provider: String, name: String, mail: String? = nil,
        permissions: Grant? = nil, set: String? = nil, createdAtSeconds: Int64,
        expiresAtSeconds: Int64? = nil
    ) {
        self.id = id
        self.database = database.text
        self.provider = provider
        self.name = name
        self.mail = mail
        self.permissions = permissions
        self.set = set
        self.createdAtSeconds = createdAtSeconds
        self.expiresAtSeconds = expiresAtSeconds
        (hasSecondFactor, lastCodeStep, networks, sessions) = (false, 0, [], [])
    }
}

/// One login of an account: a token until its end.
public struct AccountSession: Sendable, Codable, Equatable {
    /// The token's id.
    public var id: String
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// Seconds since 1970.
    public var expiresAtSeconds: Int64
    /// The client's address.
    public var address: String
    /// The peer's key; nil for a client without one.
    public var peerKey: String?
    /// Seconds since 1970; nil while nobody has ended it.
    public var endedAtSeconds: Int64?

    /// A session that has begun.
    public init(
        id: String, createdAtSeconds: Int64, expiresAtSeconds: Int64, address: String, peerKey: String?
    ) {
        self.id = id
        self.createdAtSeconds = createdAtSeconds
        self.expiresAtSeconds = expiresAtSeconds
        self.address = address
        self.peerKey = peerKey
    }
}

/// Permissions with a name, which many accounts share.
public struct PermissionSetRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.permissionSets
    /// `<database>/<name>`.
    public var id: String { "\(database)/\(name)" }
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// 1 to 64 of `[a-z0-9._-]`.
    public var name: String
    /// The permissions.
    public var permissions: Grant

    /// A set of these facts.
    public init(database: DatabaseID, name: String, permissions: Grant) {
        (self.database, self.name, self.permissions) = (database.text, name, permissions)
    }
}

/// A link that works once: an invitation to have an account, or the reset of a password.
public struct AccountLinkRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.accountLinks
    /// The link's public part.
    public var id: String
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// The provider's name.
    public var provider: String
    /// See `APIKey.secretHash`.
    public var secretHash: String
    /// The account whose password it sets; nil for an invitation.
    public var account: String?
    /// The name that the account has or will have; nil if the invited person chooses one.
    public var name: String?
    /// The address that mail goes to.
    public var mail: String?
    /// The permissions of the new account; nil if `set` has them.
    public var permissions: Grant?
    /// A set of permissions.
    public var set: String?
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// Seconds since 1970.
    public var expiresAtSeconds: Int64
    /// End of the new account, in seconds since 1970.
    public var accountExpiresAtSeconds: Int64?

    /// A link of these facts.
    public init(
        id: String, database: DatabaseID, provider: String, secretHash: String, createdAtSeconds: Int64,
        expiresAtSeconds: Int64
    ) {
        self.id = id
        self.database = database.text
        self.provider = provider
        self.secretHash = secretHash
        self.createdAtSeconds = createdAtSeconds
        self.expiresAtSeconds = expiresAtSeconds
    }
}

/// A device that asks to join, until its end (RFC 8628).
public struct JoinRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.joins
    /// `<database>/<user code>`: at most one device has a code.
    public var id: String
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// The hash of the device's own code.
    public var secretHash: String
    /// The name that the device gives itself.
    public var name: String
    /// The peer's key; nil for a device without one.
    public var peerKey: String?
    /// The client's address.
    public var address: String
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// Seconds since 1970.
    public var expiresAtSeconds: Int64
    /// The answer of a person; nil while nobody has answered.
    public var answer: JoinAnswer?

    /// A device that has asked.
    public init(
        id: String, database: DatabaseID, secretHash: String, name: String, peerKey: String?,
        address: String, createdAtSeconds: Int64, expiresAtSeconds: Int64
    ) {
        self.id = id
        self.database = database.text
        self.secretHash = secretHash
        self.name = name
        self.peerKey = peerKey
        self.address = address
        self.createdAtSeconds = createdAtSeconds
        self.expiresAtSeconds = expiresAtSeconds
    }
}

/// The answer to a device that asks to join.
public struct JoinAnswer: Sendable, Codable, Equatable {
    /// False if it was denied.
    public var isApproved: Bool
    /// Whoever answered, as the audit names them.
    public var by: String
    /// The user that the device acts for; nil for one of its own.
    public var user: String?
    /// The device's name.
    public var name: String
    /// Its permissions.
    public var permissions: Grant

    /// An answer of these facts.
    public init(isApproved: Bool, by: String, user: String?, name: String, permissions: Grant) {
        self.isApproved = isApproved
        self.by = by
        self.user = user
        self.name = name
        self.permissions = permissions
    }
}

/// A device that joined: its API key's facts beside those of every key.
public struct DeviceFacts: Sendable, Codable, Equatable {
    /// Whoever approved it.
    public var approvedBy: String
    /// The user that it acts for; nil for one of its own.
    public var user: String?
    /// The one peer that may log in with the key; nil for any.
    public var peerKey: String?

    /// Facts of a device.
    public init(approvedBy: String, user: String?, peerKey: String?) {
        (self.approvedBy, self.user, self.peerKey) = (approvedBy, user, peerKey)
    }
}

/// A peer that has logged in with an API key.
public struct KeyPeer: Sendable, Codable, Equatable {
    /// The peer's key.
    public var peerKey: String
    /// Seconds since 1970 of its last login, to within a day.
    public var lastAtSeconds: Int64

    /// A peer that logs in now.
    public init(peerKey: String, lastAtSeconds: Int64) {
        (self.peerKey, self.lastAtSeconds) = (peerKey, lastAtSeconds)
    }
}

/// Failed logins at accounts from networks: the counts of one place. The places are few, and a count's place
/// follows from its subject, so strangers make no list longer.
public struct LoginFailures: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.loginFailures
    /// The place's number.
    public var id: String
    /// In no order.
    public var counts: [FailureCount] = []

    /// A place without counts.
    public init(id: String) { self.id = id }
}

/// The failures of one network at one name, or of all networks at it.
public struct FailureCount: Sendable, Codable, Equatable {
    /// A hash of the name and the network.
    public var subject: String
    /// Failures in the window.
    public var failures: Int64
    /// Seconds since 1970 of the first one.
    public var sinceSeconds: Int64

    /// A count of these facts.
    public init(subject: String, failures: Int64, sinceSeconds: Int64) {
        (self.subject, self.failures, self.sinceSeconds) = (subject, failures, sinceSeconds)
    }
}
