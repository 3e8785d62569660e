import CRDT
import Identity

/// A named admin credential, without its secret (decision 0097). Its form is that of an API key,
/// `mimeo_<id>_<secret>`, so that scanners of repositories find one; the two are in different collections and
/// open different routes.
public struct AdminCredentialRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.adminCredentials
    /// The public part.
    public var id: String
    /// For people; stands in the audit.
    public var name: String
    /// Its rights.
    public var role: AdminRole
    /// See `APIKey.secretHash`.
    public var secretHash: String
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// Seconds since 1970.
    public var expiresAtSeconds: Int64

    /// A credential of these facts.
    public init(
        id: String, name: String, role: AdminRole, secretHash: String, createdAtSeconds: Int64,
        expiresAtSeconds: Int64
    ) {
        (self.id, self.name, self.role, self.secretHash) = (id, name, role, secretHash)
        (self.createdAtSeconds, self.expiresAtSeconds) = (createdAtSeconds, expiresAtSeconds)
    }
}

/// Whoever sends an admin request.
public struct Administrator: Sendable, Equatable {
    /// The credential's name; nil for the credential of the file.
    public let name: String?
    /// Its rights.
    public let role: AdminRole
    /// Seconds since 1970; nil for the credential of the file, which has no end.
    public let expiresAtSeconds: Int64?

    /// The holder of the credential of the file.
    static let root = Administrator(name: nil, role: .own, expiresAtSeconds: nil)

    /// As the audit names it.
    public var user: String { name.map { "admin:\($0)" } ?? "admin" }
}
