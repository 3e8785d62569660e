import AttachmentStore
import AuthGateway
import Logging
import OperationLog
import QueryService
import Replicator
import ServiceKit

/// The four services on one log, as `mimeo serve` runs them, with one system database for all.
public struct AllServices: Sendable {
    /// The port of `mimeo serve`.
    public static let defaultPort = 4000

    /// The parts for a `ServiceHost`.
    public let parts: [any ServicePart]
    private let gateway: AuthGateway
    private let log: any OperationLog

    /// Opens the log and all files in the data folder.
    /// - Throws: errors of the log and the services if they cannot use their files.
    public init(
        _ configuration: ServiceConfiguration, replicator: SessionOptions = SessionOptions(), logger: Logger
    ) throws {
        // First creates the data folder as private; the log, which is in it by default, would not.
        _ = try configuration.folder()
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = SystemDatabase(log: log, folder: try configuration.folder("system"), logger: logger)
        let gateway = try AuthGateway(configuration, log: log, system: system, logger: logger)
        let authenticator = Authenticator(system: system)
        parts = [
            SystemDatabasePart(system), StoragePart(log: log, room: room),
            gateway,
            ReplicatorPart(
                log: log, authenticator: authenticator, folder: try configuration.folder("replicator"),
                sessions: replicator, admin: AdminCredential(path: configuration.adminCredentialFile),
                logger: logger),
            QueryServicePart(
                log: log, authenticator: authenticator,
                projection: try ProjectionPlace(configuration), logger: logger),
            AttachmentStore(
                folder: try configuration.folder("attachments"), log: log,
                documents: try configuration.folder("attachment-documents"), authenticator: authenticator,
                room: room, logger: logger),
        ]
        self.gateway = gateway
        self.log = log
    }

    /// The database of the first start, and the development provider's secret for it. Only valid after the
    /// start.
    public var development: (id: String, token: String) {
        let development = gateway.development
        return (id: development.id, token: development.token)
    }

    /// Closes the log, after the host has ended.
    public func close() async { await log.close() }
}
