import CRDT
import Identity

/// The limits of a database: for all that use it together, and for each user.
public struct DatabaseLimits: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.limits
    /// The database's id, as the document has it.
    public var id: String
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(id) }
    /// For all users together.
    public var whole = UsageLimits()
    /// For each user who has none of the own.
    public var eachUser = UsageLimits()
    /// Users with limits of their own, instead of those of each.
    public var users: [UserLimits] = []

    /// No limits.
    public init(database: DatabaseID) { id = database.text }

    /// The limits of a user.
    func limits(of user: String) -> UsageLimits {
        users.first { utf8Equal($0.name, user) }?.limits ?? eachUser
    }
}

/// The most that may be used of each kind; nil is without a bound.
public struct UsageLimits: Sendable, Codable, Equatable {
    /// Requests over HTTP in a second.
    public var requestsPerSecond: Int64?
    /// Bytes of bodies over HTTP and of frames of sessions that come and go in a second.
    public var bytesPerSecond: Int64?
    /// Open sessions of peers.
    public var sessions: Int64?

    /// No limit.
    public init() {}

    /// The bound of a kind.
    public subscript(_ kind: LimitKind) -> Int64? {
        get {
            switch kind {
            case .requestsPerSecond: requestsPerSecond
            case .bytesPerSecond: bytesPerSecond
            case .sessions: sessions
            }
        }
        set {
            switch kind {
            case .requestsPerSecond: requestsPerSecond = newValue
            case .bytesPerSecond: bytesPerSecond = newValue
            case .sessions: sessions = newValue
            }
        }
    }
}

/// The kinds of limits, by their names in requests and metrics.
public enum LimitKind: String, Sendable, CaseIterable {
    /// See `UsageLimits`.
    case requestsPerSecond
    /// See `UsageLimits`.
    case bytesPerSecond
    /// See `UsageLimits`.
    case sessions
}

/// The limits of one user.
public struct UserLimits: Sendable, Codable, Equatable {
    /// The user of tokens.
    public var name: String
    /// The user's limits.
    public var limits: UsageLimits

    /// Limits of this user.
    public init(name: String, limits: UsageLimits) { (self.name, self.limits) = (name, limits) }
}
