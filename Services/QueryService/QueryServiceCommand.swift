import ArgumentParser
import Console
import Logging
import ServiceKit

/// `query-service`: the query-service in its own process.
public struct QueryServiceCommand: AsyncParsableCommand {
    /// Name and purpose.
    public static let configuration = CommandConfiguration(
        commandName: "query-service", abstract: "Executes DQL statements over HTTP.",
        version: BuildVersion.text)

    @OptionGroup private var options: ServiceOptions
    @OptionGroup private var projection: ProjectionOptions
    @OptionGroup private var issuer: IssuerOptions
    @OptionGroup private var admin: AdminOptions
    @OptionGroup private var secrets: SecretsOptions
    @OptionGroup private var evaluation: EvaluationFlags

    /// Empty, for the parser.
    public init() {}

    /// Prints `url:`, then serves until it is told to stop.
    public func run() async throws {
        let configuration = try ServiceConfiguration(
            options, projection: projection, issuer: issuer, admin: admin, secrets: secrets,
            port: QueryServicePart.defaultPort)
        let evaluation = try evaluation.options(configuration)
        let logger = Logger(label: "query-service")
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = try configuration.systemDatabase(on: log, logger: logger)
        let authenticator = Authenticator(configuration, system: system, logger: logger)
        let credential = AdminCredential(configuration, system: system)
        let part = QueryServicePart(
            log: log, authenticator: authenticator,
            projection: try ProjectionPlace(configuration), past: try configuration.folder("past"),
            pool: EvaluationPool(evaluation), admin: credential,
            secretsKey: configuration.secretsKeyFile, logger: logger)
        let console = ConsolePart(
            admin: credential, authenticator: authenticator, system: system,
            access: ConsoleAccess(configuration, isWhole: false))
        let host = try ServiceHost(
            configuration,
            parts: [
                SystemDatabasePart(system),
                StoragePart(log: log, room: room, temporary: configuration.temporaryFolder), part, console,
            ],
            logger: logger
        ) { address in
            ServiceMain.say("url: \(address.origin)")
        }
        do {
            try await host.run(signals: ServiceMain.stopSignals)
        } catch {
            await log.close()
            throw error
        }
        await log.close()
    }

    /// Entry point for `main.swift`.
    public static func runAsProcess() async -> Never { await ServiceMain.run(Self.self) }
}
