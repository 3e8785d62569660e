import CRDT
import Logging
import OperationLog
import Postgres
import ServiceKit

/// Storage of all databases' projections.
public enum ProjectionPlace: Sendable {
    /// SQLite files, in a subfolder of this folder per database.
    case folder(String)
    /// A PostgreSQL server, shared with other processes that name the same one.
    case postgres(url: String)

    /// The place that `--projection` names; without it a folder in the data folder.
    /// - Throws: `SRV-0203`.
    public init(_ configuration: ServiceConfiguration) throws(ServiceError) {
        self =
            switch configuration.projection {
            case .postgres(let url): .postgres(url: url)
            case .sqlite(let path): .folder(path)
            case nil: .folder(try configuration.folder("query"))
            }
    }
}

/// Opens the stores of all databases at one place.
struct ProjectionStores: Sendable {
    private let storage: ProjectionPlace
    private let server: PostgresProjections?
    private let tails: String
    private let connections = EvaluationSeats(PostgresLimits.projectionLanes)
    private let logger: Logger

    /// - Parameter tails: the folder for what a projection in PostgreSQL needs on this machine.
    init(_ place: ProjectionPlace, tails: String, logger: Logger) {
        storage = place
        self.tails = tails
        self.logger = logger
        server =
            if case .postgres(let url) = place { PostgresProjections(url: url, logger: logger) } else { nil }
    }

    /// Opens a database's store, which tells `recent` what it folds.
    func open(
        _ database: DatabaseID, log: any OperationLog, recent: RecentChanges
    ) async throws -> any ProjectionStore {
        switch (storage, server) {
        case (_, let server?):
            return PostgresStore(
                try await server.open(database, log: log),
                tail: ChangeTail(database, log: log, folder: tails, recent: recent, logger: logger),
                seats: connections)
        case (.folder(let folder), _):
            return try await EmbeddedStore.open(
                database, log: log, folder: "\(folder)/\(database)", recent: recent, logger: logger)
        case (.postgres, nil): preconditionFailure("a place in PostgreSQL has a server")
        }
    }

    /// The storage, as a receipt of an erasure names it.
    var place: String {
        switch storage {
        case .folder(let folder): Eraser.place(folder: folder)
        case .postgres: "the projection in PostgreSQL"
        }
    }

    /// Returns whether a database's projection is stored.
    func keeps(_ database: DatabaseID) async throws -> Bool {
        switch storage {
        case .folder(let folder): !DatabaseFolders.of(database, in: folder).isEmpty
        case .postgres:
            try await server?.keeps(database) ?? false
                || !DatabaseFolders.of(database, in: tails).isEmpty
        }
    }

    /// Removes the projection of a deleted database, which must be closed here.
    func erase(_ database: DatabaseID) async throws {
        switch storage {
        case .folder(let folder): try DatabaseFolders.remove(database, in: folder)
        case .postgres:
            try DatabaseFolders.remove(database, in: tails)
            try await server?.erase(database)
        }
    }

    /// Closes the connections that the stores share. Close the stores first.
    func close() async { await server?.close() }
}
