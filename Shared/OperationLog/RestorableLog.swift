import CRDT

/// A log into which a backup can be put back.
///
/// A database is restored under a hidden name (`restoring:ID`), which no other call lists or accepts from a
/// client, and gets its own name when it is complete. So a restore that is interrupted leaves nothing that
/// anybody sees; the next one drops its remains. Each restored database gets a log id of its own: positions
/// of the log before are not positions of this one.
///
/// A draft is an ordinary database for `append`, `beginSnapshot`, `add`, `finish`, `read` and `head`.
///
/// A database moves to another log in the same way, and keeps its identity: its former log is closed to
/// appends before the draft gets its name, so at no time do two logs take writes.
public protocol RestorableLog: OperationLog {
    /// Makes a draft of a database.
    /// - Parameters:
    ///   - start: the place whose entries, with all before it, are only in a snapshot that follows; offset 0
    ///     for a log that begins with its first entry.
    ///   - logID: the identity of a log that is moved, all of whose positions stay valid.
    /// - Throws: `LOG-0102`, `LOG-0103` while another restore of this database runs.
    func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID
    ) async throws -> DatabaseID

    /// Registers actors whose operations are not among the entries of a draft.
    func register(_ actors: [ActorID: FrontierEntry], in draft: DatabaseID) async throws

    /// Gives drafts their names, all at once and durably. Databases in `replaced` are gone from then on.
    /// - Throws: `LOG-0103` when a database of such a name exists and is not in `replaced`.
    func publish(_ drafts: [DatabaseID], replacing replaced: [DatabaseID]) async throws

    /// Drops drafts of this and of interrupted restores.
    func discardDrafts() async throws

    /// Returns whether another process, or another opening in this one, uses the log.
    func hasOtherUsers() async throws -> Bool

    /// Refuses every later append to a database with `LOG-0313`, durably and in every process, those of
    /// earlier builds included. Reads go on. Nothing changes if it was moved to that place before.
    /// - Throws: `LOG-0313` if it was moved to another place.
    func close(_ database: DatabaseID, movedTo place: NewPlace) async throws

    /// Takes appends to a database again.
    func reopen(_ database: DatabaseID) async throws

    /// The place that a database was moved to; nil while appends are taken.
    func newPlace(of database: DatabaseID) async throws -> NewPlace?
}

extension RestorableLog {
    /// Makes a draft of a database under a new identity.
    public func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64
    ) async throws -> DatabaseID {
        try await beginRestore(of: database, after: start, hash: hash, as: .random())
    }
}

/// A draft of a database: its hidden name, and the row that a driver begins it with.
package struct RestoreDraft: Sendable {
    /// No database can be called so.
    package static let prefix = "restoring:"

    /// The draft's name.
    package let name: DatabaseID
    /// A new one for a restored log: positions of the log before are not positions of this one.
    package let logID: LogID
    /// The head, up to which everything is truncated and settled.
    package let start: Offset
    /// The chain hash there.
    package let hash: UInt64

    private let database: DatabaseID

    /// - Parameters: as of `beginRestore`.
    /// - Throws: `LOG-0102`.
    package init(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID
    ) throws(OperationLogError) {
        guard database.isValidInLog else {
            throw OperationLogError(.invalidDatabaseID, "no database can have the id \"\(database)\"")
        }
        (self.database, self.start, self.logID) = (database, start, logID)
        name = Self.name(of: database)
        self.hash = start == 0 ? ChainHash.start(logID) : hash
    }

    /// The chain hash up to which entries are truncated; 0 if none are.
    package var truncatedHash: UInt64 { start == 0 ? 0 : hash }

    /// The draft's name, once the driver has made it.
    /// - Parameter isMade: false if there was one of this name.
    /// - Throws: `LOG-0103`.
    package func made(_ isMade: Bool) throws(OperationLogError) -> DatabaseID {
        guard isMade else { throw Self.taken(database) }
        return name
    }

    /// The hidden name of a database's draft.
    package static func name(of database: DatabaseID) -> DatabaseID { DatabaseID(prefix + database.text) }

    /// The name that a draft gets.
    package static func target(of draft: DatabaseID) -> DatabaseID {
        precondition(draft.text.hasPrefix(prefix), "\(draft) is no draft of a restore")
        return DatabaseID(String(draft.text.dropFirst(prefix.count)))
    }

    package static func taken(_ database: DatabaseID) -> OperationLogError {
        OperationLogError(
            .invalidRequest, "the log has a database of this id, or another restore of it runs",
            database: database)
    }
}
