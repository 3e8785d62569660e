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
    private let place: ProjectionPlace
    private let server: PostgresProjections?
    private let connections = EvaluationSeats(PostgresLimits.projectionLanes)
    private let logger: Logger

    init(_ place: ProjectionPlace, logger: Logger) {
        self.place = place
        self.logger = logger
        server =
            if case .postgres(let url) = place { PostgresProjections(url: url, logger: logger) } else { nil }
    }

    func open(_ database: DatabaseID, log: any OperationLog) async throws -> any ProjectionStore {
        switch (place, server) {
        case (_, let server?):
            return PostgresStore(try await server.open(database, log: log), seats: connections)
        case (.folder(let folder), _):
            return try await EmbeddedStore.open(
                database, log: log, folder: "\(folder)/\(database)", logger: logger)
        case (.postgres, nil): preconditionFailure("a place in PostgreSQL has a server")
        }
    }

    /// Closes the connections that the stores share. Close the stores first.
    func close() async { await server?.close() }
}
