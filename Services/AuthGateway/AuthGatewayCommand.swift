import ArgumentParser
import Logging
import OperationLog
import ServiceKit

/// `auth-gateway`: the gateway in its own process.
public struct AuthGatewayCommand: AsyncParsableCommand {
    /// Name and purpose.
    public static let configuration = CommandConfiguration(
        commandName: "auth-gateway",
        abstract: "Turns logins into access tokens for the other services.",
        version: BuildVersion.text)

    @OptionGroup private var options: ServiceOptions
    @OptionGroup private var providers: ProviderOptions

    /// Empty, for the parser.
    public init() {}

    /// Prints `url:`, `database:` and, to a terminal, `token:`, then serves until it is told to stop.
    public func run() async throws {
        let configuration = try ServiceConfiguration(
            options, providers: providers, port: AuthGateway.defaultPort)
        let logger = Logger(label: "auth-gateway")
        let room = configuration.diskRoom()
        let log = try configuration.openLog(room: room, logger: logger)
        let system = try configuration.systemDatabase(on: log, logger: logger)
        let gateway = try AuthGateway(configuration, log: log, system: system, logger: logger)
        let host = try ServiceHost(
            configuration,
            parts: [
                SystemDatabasePart(system),
                StoragePart(log: log, room: room, temporary: configuration.temporaryFolder), gateway,
            ],
            logger: logger
        ) { address in
            let development = gateway.development
            ServiceMain.say("url: \(address.origin)", "database: \(development.id)")
            ServiceMain.say(development.tokenLine(isShown: configuration.showsToken))
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

extension ServiceConfiguration {
    /// True if the development token may be printed: where it was asked for, else to a terminal.
    public var showsToken: Bool { showToken ?? ServiceMain.isTerminal }
}

extension DevelopmentDatabase {
    /// `token: …`, or `token-file: …` where the output may be stored; the way to turn it on where no login
    /// with the token is accepted.
    public func tokenLine(isShown: Bool) -> String {
        guard isAccepted else { return "development-login: off: \(AuthGateway.developmentOff)" }
        return isShown ? "token: \(token)" : "token-file: \(tokenFile)"
    }
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
        options.allowsDevelopment = configuration.acceptsDevelopment
        options.isSecure = configuration.tls != nil
        try self.init(
            folder: configuration.folder("auth"), system: system, options: options, logger: logger
        ) { id in
            _ = try await log.createDatabase(id)
        }
    }
}
