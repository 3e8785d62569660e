import CRDT

/// A log into which a backup can be put back.
///
/// A database is restored under a hidden name (`RestoreDraft`), which no other call lists or accepts from a
/// client, and gets its own name when it is complete. So a restore that is interrupted leaves nothing that
/// anybody sees; the next one drops its remains. Each restored database gets a log id of its own: positions
/// of the log before are not positions of this one.
///
/// A draft is an ordinary database for `append`, `beginSnapshot`, `add`, `finish`, `read` and `head`.
///
/// A database moves to another log in the same way, and keeps its identity: its former log is closed to
/// appends before the draft gets its name, so at no time do two logs take writes. `rename`, `close` and
/// `reopen` name the state that they change, and fail if it is another one meanwhile: a process that was
/// stopped for an hour does nothing then that its successor does not expect.
public protocol RestorableLog: OperationLog {
    /// Takes the making of drafts for this opening of the log, until it releases them or its process ends.
    /// PostgreSQL also releases them when it loses the connection.
    /// - Throws: `LOG-0314` while another opening has them.
    func reserveDrafts() async throws

    /// Lets others make drafts.
    func releaseDrafts() async

    /// Makes a draft of a database.
    /// - Parameters:
    ///   - start: the place whose entries, with all before it, are only in a snapshot that follows; offset 0
    ///     for a log that begins with its first entry.
    ///   - logID: the identity of a log that is moved, all of whose positions stay valid; nil for a restore,
    ///     which gets a new one.
    /// - Throws: `LOG-0102`, `LOG-0103` while there is such a draft.
    func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID?
    ) async throws -> DatabaseID

    /// Registers actors whose operations are not among the entries of a draft.
    func register(_ actors: [ActorID: FrontierEntry], in draft: DatabaseID) async throws

    /// The number of a database or draft, which the log gives to no other one, also after its end; nil if
    /// there is none of this name.
    func number(of database: DatabaseID) async throws -> Int64?

    /// The names of all drafts.
    func drafts() async throws -> [DatabaseID]

    /// Gives databases and drafts other names, in this order, all at once and durably. Retired drafts are not
    /// read or written any more.
    /// - Throws: `LOG-0314` if one of them has not this name any more, `LOG-0103` if a name is taken. Nothing
    ///   has changed then.
    func rename(_ renamings: [Renaming]) async throws

    /// Returns whether another process, or another opening in this one, uses the log.
    func hasOtherUsers() async throws -> Bool

    /// Refuses every later append to a database with `LOG-0313`, durably and in every process, those of
    /// earlier builds included. Reads go on.
    /// - Parameter former: its place until now; nil while it takes appends.
    /// - Throws: `LOG-0313` if it was moved to another log, `LOG-0314` if its place is not `former`.
    func close(_ database: DatabaseID, movedTo place: NewPlace, from former: NewPlace?) async throws

    /// Takes appends to a database again.
    /// - Throws: `LOG-0314` if its place is not `former`.
    func reopen(_ database: DatabaseID, from former: NewPlace) async throws

    /// The place that a database was moved to; nil while appends are taken.
    func newPlace(of database: DatabaseID) async throws -> NewPlace?
}

extension RestorableLog {
    /// Makes a draft of a database under a new identity.
    public func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64
    ) async throws -> DatabaseID {
        try await beginRestore(of: database, after: start, hash: hash, as: nil)
    }

    /// Gives drafts their names, all at once and durably. Databases in `replaced` are gone from then on.
    /// - Throws: `LOG-0103` when a database of such a name exists and is not in `replaced`, `LOG-0314` for a
    ///   draft that is gone.
    public func publish(_ drafts: [DatabaseID], replacing replaced: [DatabaseID]) async throws {
        var renamings: [Renaming] = []
        for database in replaced {
            guard let number = try await number(of: database) else { continue }
            renamings.append(Renaming(database, number: number, to: nil))
        }
        for draft in drafts {
            let number = try await number(of: draft) ?? 0
            renamings.append(Renaming(draft, number: number, to: RestoreDraft.target(of: draft)))
        }
        try await rename(renamings)
    }

    /// Drops the drafts of restores that were interrupted; nobody restores while they are reserved. A
    /// move's drafts stay: it goes on where it was.
    public func discardDrafts() async throws {
        try await remove(try await drafts().filter { $0.text.hasPrefix(RestoreDraft.restoring) })
    }

    /// Removes drafts, as far as they are there.
    package func remove(_ drafts: [DatabaseID]) async throws {
        var renamings: [Renaming] = []
        for draft in drafts {
            guard let number = try await number(of: draft) else { continue }
            renamings.append(Renaming(draft, number: number, to: nil))
        }
        if !renamings.isEmpty { try await rename(renamings) }
    }
}

/// A database or draft, and the name that it is to get.
public struct Renaming: Sendable {
    /// Its present name.
    public let database: DatabaseID
    /// Its number, which tells it from another one that has taken the name.
    public let number: Int64
    /// The new name; nil removes it.
    public let name: DatabaseID?

    /// A name for a database.
    public init(_ database: DatabaseID, number: Int64, to name: DatabaseID?) {
        (self.database, self.number, self.name) = (database, number, name)
    }

    /// The refusal of one that is gone, or has another name.
    package var refusal: OperationLogError {
        OperationLogError(
            .contended, "\(database) was changed by another restore or move; begin again", database: database)
    }
}

/// A draft of a database: its hidden name, and the row that a driver begins it with.
///
/// No database can have such a name. `restoring:ID` is a restore's, `moving:ID` that of a move, and
/// `retired:ID:LOG:N` was the latter, of the log with this identity, with the number N: it is kept until no
/// log names it any more, as the proof that it was never shown.
package struct RestoreDraft: Sendable {
    package static let restoring = "restoring:"
    package static let moving = "moving:"
    package static let retired = "retired:"

    /// The draft's name.
    package let name: DatabaseID
    package let logID: LogID
    /// The head, up to which everything is truncated and settled.
    package let start: Offset
    /// The chain hash there.
    package let hash: UInt64

    private let database: DatabaseID

    /// - Parameters: as of `beginRestore`.
    /// - Throws: `LOG-0102`.
    package init(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID?
    ) throws(OperationLogError) {
        guard database.isValidInLog else {
            throw OperationLogError(.invalidDatabaseID, "no database can have the id \"\(database)\"")
        }
        (self.database, self.start, self.logID) = (database, start, logID ?? .random())
        name = logID == nil ? DatabaseID(Self.restoring + database.text) : Self.moving(database)
        self.hash = start == 0 ? ChainHash.start(self.logID) : hash
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

    /// Returns whether a name is that of a draft: databases that are being erased have hidden ones, too.
    package static func isOne(_ name: DatabaseID) -> Bool {
        [restoring, moving, retired].contains(where: name.text.hasPrefix)
    }

    /// The hidden name of a database on its way to this log.
    package static func moving(_ database: DatabaseID) -> DatabaseID { DatabaseID(moving + database.text) }

    /// The hidden name of a move's draft that is never shown, nor read or written.
    package static func retired(_ database: DatabaseID, _ identity: LogID, _ number: Int64) -> DatabaseID {
        DatabaseID("\(retired(database, identity))\(number)")
    }

    /// Returns whether a draft is such a one of a database.
    package static func isRetired(_ draft: DatabaseID, of database: DatabaseID, _ identity: LogID) -> Bool {
        draft.text.hasPrefix(retired(database, identity))
    }

    private static func retired(_ database: DatabaseID, _ identity: LogID) -> String {
        "\(retired)\(database.text):\(identity):"
    }

    /// The name that a draft gets.
    package static func target(of draft: DatabaseID) -> DatabaseID {
        guard let prefix = [restoring, moving].first(where: draft.text.hasPrefix) else {
            preconditionFailure("\(draft) is no draft of a restore or move")
        }
        return DatabaseID(String(draft.text.dropFirst(prefix.count)))
    }

    package static func taken(_ database: DatabaseID) -> OperationLogError {
        OperationLogError(
            .invalidRequest, "the log has a database of this id, or another restore of it runs",
            database: database)
    }
}
