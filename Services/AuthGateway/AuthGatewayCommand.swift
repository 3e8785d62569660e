import ArgumentParser
import Logging
import OperationLog
import ServiceKit

/// `auth-gateway`: the gateway in its own process.
public struct AuthGatewayCommand: AsyncParsableCommand {
    /// Name and purpose.
    public static let configuration = CommandConfiguration(
        commandName: "auth-gateway",
        abstract: "Turns logins into access tokens for the other services.")

    @OptionGroup private var options: ServiceOptions
    @OptionGroup private var providers: ProviderOptions
    @Flag(help: "Print the development token even if the output is not a terminal and may be stored.")
    private var showToken = false

    /// Empty, for the parser.
    public init() {}

    /// Prints `url:`, `database:` and, to a terminal, `token:`, then serves until it is told to stop.
    public func run() async throws {
        let configuration = try ServiceConfiguration(
            options, providers: providers, port: AuthGateway.defaultPort)
        let logger = Logger(label: "auth-gateway")
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = SystemDatabase(log: log, folder: try configuration.folder("system"), logger: logger)
        let gateway = try AuthGateway(configuration, log: log, system: system, logger: logger)
        let showToken = configuration.flag(showToken, "showToken")
        let host = ServiceHost(
            parts: [SystemDatabasePart(system), StoragePart(log: log, room: room), gateway],
            listen: configuration.listen,
            tls: try configuration.tlsFiles(logger: logger), cors: configuration.cors, logger: logger
        ) { address in
            let (id, token) = (gateway.development.id, gateway.development.token)
            let isShown = showToken || ServiceMain.isTerminal
            ServiceMain.say(
                "url: \(address.origin)", "database: \(id)",
                isShown ? "token: \(token)" : "token at GET /admin/auth/databases/\(id), or use --show-token")
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

extension AuthGateway {
    /// Makes the gateway from flags and configuration file.
    public init(
        _ configuration: ServiceConfiguration, log: any OperationLog, system: SystemDatabase, logger: Logger
    ) throws {
        var options = Options()
        options.providers = configuration.providers
        options.secretsKey = configuration.secretsKey
        options.adminCredential = configuration.adminToken
        options.trustsProxy = configuration.behindProxy
        options.acceptsRestore = configuration.acceptsRestore
        try self.init(
            folder: configuration.folder("auth"), system: system, options: options, logger: logger
        ) { id in
            _ = try await log.createDatabase(id)
        }
    }
}
