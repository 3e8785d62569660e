import AttachmentStore
import AuthGateway
import Console
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

    /// Options of single services.
    public struct Options: Sendable {
        /// The replicator's connections.
        public var sessions = SessionOptions()
        /// The bounds of a database's storage.
        public var housekeeping = HousekeepingOptions()
        /// The bounds of statements and subscriptions.
        public var evaluation = EvaluationOptions()
        /// The bounds of attachments.
        public var attachments = AttachmentOptions()

        /// The defaults.
        public init() {}
    }

    /// Opens the log and all files in the data folder.
    /// - Parameter named: makes the logger of a service; the one logger for all unless it is given.
    /// - Throws: errors of the log and the services if they cannot use their files.
    public init(
        _ configuration: ServiceConfiguration, options: Options = Options(), logger: Logger,
        named: ((String) -> Logger)? = nil
    ) throws {
        let named = named ?? { _ in logger }
        // First creates the data folder as private; the log, which is in it by default, would not.
        _ = try configuration.folder()
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = try configuration.systemDatabase(on: log, logger: logger)
        let gateway = try AuthGateway(
            configuration, log: log, system: system, logger: named("auth-gateway"))
        let authenticator = Authenticator(system: system)
        let pool = EvaluationPool(options.evaluation)
        let admin = AdminCredential(configuration, system: system)
        let materializations = Materializations(
            of: log, folder: try configuration.folder("replicator"), logger: logger)
        // Before one fold served all, query-service and attachment-store had their own.
        let ownFolds =
            ["attachment-documents", "past-tail"] + (configuration.projection == nil ? ["query"] : [])
        for unused in ownFolds { Materializations.removeUnused(in: try configuration.folder(unused)) }
        parts = [
            SystemDatabasePart(system),
            StoragePart(log: log, room: room, temporary: configuration.temporaryFolder),
            gateway,
            ReplicatorPart(
                log: log, authenticator: authenticator, materializations: materializations,
                housekeeping: options.housekeeping, sessions: options.sessions, admin: admin, pool: pool,
                logger: named("replicator")),
            QueryServicePart(
                log: log, authenticator: authenticator,
                projection: try ProjectionPlace(configuration, sharing: materializations),
                past: try configuration.folder("past"),
                pool: pool, admin: admin, secretsKey: configuration.secretsKeyFile,
                logger: named("query-service")),
            AttachmentStore(
                folder: try configuration.folder("attachments"), log: log,
                documents: materializations, authenticator: authenticator,
                options: options.attachments, admin: admin, room: room,
                logger: named("attachment-store")),
            ConsolePart(
                admin: admin, authenticator: authenticator, system: system,
                access: ConsoleAccess(configuration, isWhole: true)),
        ]
        self.gateway = gateway
        self.log = log
    }

    /// The database of the first start, and the development provider's secret for it. Only valid after the
    /// start.
    public var development: DevelopmentDatabase { gateway.development }

    /// Closes the log, after the host has ended.
    public func close() async { await log.close() }
}
