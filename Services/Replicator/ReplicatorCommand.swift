import ArgumentParser
import Logging
import ServiceKit

/// `replicator`: the replicator in a process of its own.
public struct ReplicatorCommand: AsyncParsableCommand {
    /// Name and purpose.
    public static let configuration = CommandConfiguration(
        commandName: "replicator", abstract: "Syncs Mimeo's peers with the operation log.",
        version: BuildVersion.text)

    @OptionGroup private var options: ServiceOptions
    @OptionGroup private var issuer: IssuerOptions
    @OptionGroup private var housekeeping: HousekeepingFlags
    @OptionGroup private var sessions: SessionFlags
    @OptionGroup private var admin: AdminOptions
    @OptionGroup private var evaluation: EvaluationFlags

    /// An empty value for the parser.
    public init() {}

    /// Prints `url:`, then serves until it is told to stop.
    public func run() async throws {
        let configuration = try ServiceConfiguration(
            options, issuer: issuer, admin: admin, port: ReplicatorPart.defaultPort)
        let housekeeping = try housekeeping.options(configuration)
        let sessions = try sessions.options(configuration)
        let evaluation = try evaluation.options(configuration)
        let logger = Logger(label: "replicator")
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = try configuration.systemDatabase(on: log, logger: logger)
        let part = ReplicatorPart(
            log: log, authenticator: Authenticator(configuration, system: system, logger: logger),
            materializations: Materializations(
                of: log, folder: try configuration.folder("replicator"), logger: logger),
            housekeeping: housekeeping,
            sessions: sessions, admin: AdminCredential(configuration, system: system),
            pool: EvaluationPool(evaluation), logger: logger)
        let host = try ServiceHost(
            configuration,
            parts: [
                SystemDatabasePart(system),
                StoragePart(log: log, room: room, temporary: configuration.temporaryFolder), part,
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

    /// The entry point for `main.swift`.
    public static func runAsProcess() async -> Never { await ServiceMain.run(Self.self) }
}
