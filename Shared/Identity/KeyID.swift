import CRDT

/// The id of a signing key: `<database>.<number>`. A database id has no dot, so the id is unambiguous.
public struct KeyID: Sendable, Hashable, CustomStringConvertible {
    /// The database whose tokens the key signs.
    public let databaseID: DatabaseID
    /// Counts the database's keys from 1.
    public let number: Int

    /// - Throws: `AUTH-0304` for an invalid database id, `AUTH-0301` for a number below 1.
    public init(databaseID: DatabaseID, number: Int) throws(IdentityError) {
        try databaseID.validate()
        guard number >= 1 else { throw IdentityError(.signingKeyInvalid, "key numbers count from 1") }
        self.databaseID = databaseID
        self.number = number
    }

    /// Parses `<database>.<number>`; nil for anything else, and for a number with a sign or a leading zero.
    public init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let number = Int(parts[1]), number >= 1, String(number) == parts[1]
        else { return nil }
        let databaseID = DatabaseID(String(parts[0]))
        guard databaseID.isValid else { return nil }
        self.databaseID = databaseID
        self.number = number
    }

    /// `<database>.<number>`.
    public var description: String { "\(databaseID).\(number)" }
}
