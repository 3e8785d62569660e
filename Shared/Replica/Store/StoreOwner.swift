import CRDT
import GRDB
import Machine

/// The database that a peer's store belongs to.
///
/// A store takes the id of its first opening for a database, in the transaction of that opening, and keeps
/// it: it is durable before anything can be sent, and a copy of the file has it too. Openings for another
/// database are refused, because all documents would be uploaded there. An opening without an id, by which
/// a tool looks into a store, neither asks nor takes one.
public struct StoreOwner: Sendable {
    /// The database that the store is opened for.
    public let database: DatabaseID
    /// Reads the database that other files of the directory show. It counts for a store that existed before
    /// owners were kept; nil where no file shows one.
    let recorded: @Sendable () -> DatabaseID?

    /// The owner of an opening.
    public init(_ database: DatabaseID, recorded: @escaping @Sendable () -> DatabaseID? = { nil }) {
        self.database = database
        self.recorded = recorded
    }

    private static let key = "database"

    /// Lets the store belong to this database.
    /// - Parameter isNew: true for a store that this opening makes: other files say nothing about it.
    /// - Throws: `otherDatabase`; the caller's transaction is rolled back then.
    func claim(isNew: Bool, directory: String, _ connection: Database) throws {
        let kept = try Self.kept(connection)
        if let owner = kept ?? (isNew ? nil : recorded()), owner.canonical != database.canonical {
            throw ReplicaError(
                .otherDatabase,
                "the store in \(directory) belongs to the database \(owner) and was opened for \(database);"
                    + " nothing was read or sent. Use another directory for \(database), or give up all that"
                    + " is in this one: remove it, or call Ditto.emptyPersistenceDirectory(_:)")
        }
        guard kept == nil else { return }
        let statement = try RawStatement(
            cached: "INSERT INTO setting (key, value) VALUES (?, ?)", connection)
        statement.bind(1, Self.key)
        statement.bind(2, Array(database.text.utf8))
        try statement.run()
    }

    /// The owner that a store keeps; nil before its first opening for a database.
    static func kept(_ connection: Database) throws -> DatabaseID? {
        let statement = try RawStatement(cached: "SELECT value FROM setting WHERE key = ?", connection)
        statement.bind(1, key)
        guard try statement.step() else { return nil }
        return DatabaseID(String(decoding: statement.bytes(0), as: UTF8.self))
    }
}

extension DatabaseID {
    /// The id, a UUID in small letters: both spellings name one database.
    fileprivate var canonical: DatabaseID {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        let isUUID =
            parts.map(\.count) == [8, 4, 4, 4, 12]
            && parts.joined().allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
        return isUUID ? DatabaseID(text.lowercased()) : self
    }
}

// MARK: - Emptying

extension PeerReplica {
    /// Runs `body` while no other replica can open a directory; the closure it is passed removes the store
    /// there. Removes nothing by itself.
    /// - Throws: `directoryLocked` after about a second, `directoryUnusable`, the errors of `body`.
    public static func emptying(
        directory: String, environment: Environment, _ body: (_ removeStore: () throws -> Void) throws -> Void
    ) throws {
        let lock = try DirectoryLock(directory: directory, attempts: ReplicaLimits.lockAttempts) {
            environment.pause(ReplicaLimits.lockPause)
        }
        defer { lock.release() }
        try body {
            try DocumentStore.discard(directory: directory)
            lock.forgetStore()
        }
    }
}
