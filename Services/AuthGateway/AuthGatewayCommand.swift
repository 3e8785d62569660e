import ArgumentParser
import Logging
import ServiceKit

/// `auth-gateway`: the gateway in a process of its own.
public struct AuthGatewayCommand: AsyncParsableCommand {
    /// Name and purpose.
    public static let configuration = CommandConfiguration(
        commandName: "auth-gateway",
        abstract: "Turns logins into access tokens for the other services of Mimeo.")

    @OptionGroup private var options: ServiceOptions
    @OptionGroup private var providers: ProviderOptions

    /// Empty, for the parser.
    public init() {}

    /// Prints `url:`, `database:` and `token:`, then serves until it is told to stop.
    public func run() async throws {
        let configuration = try ServiceConfiguration(
            options, providers: providers, port: AuthGateway.defaultPort)
        let logger = Logger(label: "auth-gateway")
        let log = try configuration.openLog(logger: logger)
        let gateway = try AuthGateway(
            folder: configuration.folder("auth"), providers: configuration.providers, logger: logger
        ) { id in
            _ = try await log.createDatabase(id)
        }
        let host = ServiceHost(parts: [gateway], listen: configuration.listen, logger: logger) { address in
            ServiceMain.say(
                "url: \(address.origin)", "database: \(gateway.development.id)",
                "token: \(gateway.development.token)")
        }
        do {
            try await host.run(signals: ServiceMain.stopSignals)
        } catch {
            await log.close()
            throw error
        }
        await log.close()
    }

    /// What `main.swift` calls.
    public static func runAsProcess() async -> Never { await ServiceMain.run(Self.self) }
}
