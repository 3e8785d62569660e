import AttachmentStore
import AuthGateway
import Logging
import OperationLog
import QueryService
import Replicator
import ServiceKit

/// The four services over one log, as `mimeo serve` runs them: keys are handed over in memory.
public struct AllServices: Sendable {
    /// The port of `mimeo serve`.
    public static let defaultPort = 4000

    /// What a `ServiceHost` serves.
    public let parts: [any ServicePart]
    /// The database of the first start, and the development provider's secret for it.
    public let development: (id: String, token: String)
    private let log: any OperationLog

    /// Opens the log and everything in the data folder.
    /// - Throws: what the log and the services throw when they cannot use their files.
    public init(_ configuration: ServiceConfiguration, logger: Logger) throws {
        // Before the log, which is in it by default: what makes the data folder makes it private.
        _ = try configuration.folder()
        let log = try configuration.openLog(logger: logger)
        let gateway = try AuthGateway(
            folder: configuration.folder("auth"), providers: configuration.providers, logger: logger
        ) { id in
            _ = try await log.createDatabase(id)
        }
        let authenticator = Authenticator(source: gateway.keySource)
        parts = [
            gateway,
            ReplicatorPart(
                log: log, authenticator: authenticator, folder: try configuration.folder("replicator"),
                logger: logger),
            QueryServicePart(
                log: log, authenticator: authenticator,
                projection: try ProjectionPlace(configuration), logger: logger),
            AttachmentStore(folder: try configuration.folder("attachments"), authenticator: authenticator),
        ]
        development = (id: gateway.development.id, token: gateway.development.token)
        self.log = log
    }

    /// Closes the log, after the host has ended.
    public func close() async { await log.close() }
}
