/// Who is at the other end, for one database, until a given time. What a verified access token says.
public struct Identity: Sendable, Hashable {
    /// The provider's name for the user.
    public let userID: String
    /// The one database this identity is for.
    public let databaseID: String
    /// The public key of the peer that logged in (`pk…`), when it sent one.
    public let peerKey: String?
    /// What may be read and written.
    public let grant: Grant
    /// Seconds since 1970 (UTC) from which on the identity is no longer valid.
    public let expiresAtSeconds: Int64

    /// An identity of the given parts.
    public init(userID: String, databaseID: String, peerKey: String?, grant: Grant, expiresAtSeconds: Int64) {
        self.userID = userID
        self.databaseID = databaseID
        self.peerKey = peerKey
        self.grant = grant
        self.expiresAtSeconds = expiresAtSeconds
    }

    /// The same with another grant.
    public func with(_ grant: Grant) -> Identity {
        Identity(
            userID: userID, databaseID: databaseID, peerKey: peerKey, grant: grant,
            expiresAtSeconds: expiresAtSeconds)
    }
}

/// The rule for database ids, which are also folder names and parts of key ids.
public enum DatabaseID {
    /// - Throws: `AUTH-0304` unless the text is 1 to 128 of `[A-Za-z0-9_-]`.
    public static func validate(_ text: String) throws(IdentityError) {
        guard isValid(text) else {
            throw IdentityError(
                .databaseIDInvalid,
                "a database id is 1 to \(Limits.databaseIDBytes) letters, digits, '-' or '_'")
        }
    }

    /// Whether the text is 1 to 128 of `[A-Za-z0-9_-]`.
    public static func isValid(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.count <= Limits.databaseIDBytes
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}
