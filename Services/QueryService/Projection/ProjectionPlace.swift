import CRDT
import Logging
import OperationLog
import Postgres
import ServiceKit

/// Where the projections of all databases are kept.
public enum ProjectionPlace: Sendable {
    /// In SQLite files, a folder per database below this one.
    case folder(String)
    /// In a PostgreSQL, shared with the other processes that name the same.
    case postgres(url: String)

    /// What the flags say; without `--projection` in the data folder.
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

/// Opens the stores of databases at one place.
struct ProjectionStores: Sendable {
    private let place: ProjectionPlace
    private let server: PostgresProjections?
    private let logger: Logger

    init(_ place: ProjectionPlace, logger: Logger) {
        self.place = place
        self.logger = logger
        server =
            if case .postgres(let url) = place { PostgresProjections(url: url, logger: logger) } else { nil }
    }

    func open(_ database: DatabaseID, log: any OperationLog) async throws -> any ProjectionStore {
        switch (place, server) {
        case (_, let server?): return PostgresStore(try await server.open(database, log: log))
        case (.folder(let folder), _):
            return try await EmbeddedStore.open(
                database, log: log, folder: "\(folder)/\(database)", logger: logger)
        case (.postgres, nil): preconditionFailure("a place in PostgreSQL has a server")
        }
    }

    /// Frees what the stores share. Close them before.
    func close() async { await server?.close() }
}
