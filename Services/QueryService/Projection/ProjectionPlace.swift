import CRDT
import Logging
import OperationLog
import Postgres
import ServiceKit

/// Storage of all databases' projections.
public enum ProjectionPlace: Sendable {
    /// SQLite files, in a subfolder of this folder per database.
    case folder(String)
    /// The materializations that this process has for all its services.
    case shared(Materializations)
    /// A PostgreSQL server, shared with other processes that name the same one. Followers of changes read
    /// the materializations of this process, if its services share any, else the query service's own.
    case postgres(url: String, following: Materializations? = nil)

    /// The place that `--projection` names. Without it the process's materializations, or a folder in the
    /// data folder if it has none.
    /// - Throws: `SRV-0203`.
    public init(
        _ configuration: ServiceConfiguration, sharing materializations: Materializations? = nil
    ) throws(ServiceError) {
        self =
            switch configuration.projection {
            case .postgres(let url): .postgres(url: url, following: materializations)
            case .sqlite(let path): .folder(path)
            case nil:
                if let materializations {
                    .shared(materializations)
                } else {
                    .folder(try configuration.folder("query"))
                }
            }
    }
}

/// Opens the stores of all databases at one place.
struct ProjectionStores: Sendable {
    private let storage: ProjectionPlace
    private let server: PostgresProjections?
    /// Nil in PostgreSQL.
    private let embedded: Materializations?
    /// The materializations that followers of a projection in PostgreSQL read.
    private let tails: Materializations
    private let connections = EvaluationSeats(PostgresLimits.projectionLanes)
    private let logger: Logger

    /// - Parameter tails: the folder for what followers of a projection in PostgreSQL need on this machine,
    ///   where no other service has it.
    init(_ place: ProjectionPlace, log: any OperationLog, tails: String, logger: Logger) {
        storage = place
        self.logger = logger
        server =
            if case .postgres(let url, _) = place {
                PostgresProjections(
                    url: url, isBesideLog: Self.isKept(log, at: url),
                    indexes: ProjectionIndexes(in: IndexDefinitions.collection, IndexDefinitions.all),
                    fence: (log as? GuardedLog)?.fence(of: url), logger: logger)
            } else {
                nil
            }
        embedded =
            switch place {
            case .folder(let folder): Materializations(of: log, folder: folder, logger: logger)
            case .shared(let materializations): materializations
            case .postgres: nil
            }
        self.tails =
            if case .postgres(_, let following?) = place {
                following
            } else {
                Materializations(of: log, folder: tails, logger: logger)
            }
    }

    private static func isKept(_ log: any OperationLog, at url: String) -> Bool {
        (log as? GuardedLog)?.isKept(at: url) ?? (log as? PostgresOperationLog)?.isKept(at: url) ?? false
    }

    /// Opens a database's store; it tells `recent` the operations that it folds.
    func open(
        _ database: DatabaseID, log: any OperationLog, recent: RecentChanges
    ) async throws -> any ProjectionStore {
        if let embedded {
            return try await EmbeddedStore.open(
                database, log: log, in: embedded, recent: recent, logger: logger)
        }
        guard let server else { preconditionFailure("a place in PostgreSQL has a server") }
        return PostgresStore(
            database, log: log, try await server.open(database, log: log),
            tail: ChangeTail(database, in: tails, recent: recent),
            seats: connections)
    }

    /// The storage, as a receipt of an erasure names it.
    var place: String {
        switch storage {
        case .folder(let folder): Eraser.place(folder: folder)
        case .shared(let materializations): Eraser.place(folder: materializations.folder)
        case .postgres: "the projection in PostgreSQL"
        }
    }

    /// Returns whether a database's projection is stored.
    func keeps(_ database: DatabaseID) async throws -> Bool {
        if let embedded { return embedded.keeps(database) }
        return try await server?.keeps(database) ?? false || tails.keeps(database)
    }

    /// Removes the projection of a deleted database, which must be closed here.
    func erase(_ database: DatabaseID) async throws {
        if let embedded { return try await embedded.erase(database) }
        try await tails.erase(database)
        try await server?.erase(database)
    }

    /// Closes the connections that the stores share. Close the stores first.
    func close() async { await server?.close() }
}
