/// The rights of an admin credential. Each role has the rights of those before it.
public enum AdminRole: String, Sendable, Codable, CaseIterable, Comparable {
    /// Sees states, lists and settings. No secret, and no value of a document.
    case read
    /// Also acts on what runs: drains, disconnects, cancels, revokes, rebuilds, writes snapshots.
    case operate
    /// Does everything: makes databases, keys and credentials, shows secrets, deletes and erases.
    case own

    /// The order of the rights.
    public static func < (left: AdminRole, right: AdminRole) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .read: 0
        case .operate: 1
        case .own: 2
        }
    }
}
