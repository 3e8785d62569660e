import ArgumentParser
import Logging
import Replicator
import ServiceKit

/// `mimeo serve`: all four services in this process.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the whole server: login, sync, DQL over HTTP, attachments.")

    @OptionGroup var options: ServiceOptions
    @OptionGroup var projection: ProjectionOptions
    @OptionGroup var providers: ProviderOptions
    @OptionGroup var replicator: SessionFlags
    @OptionGroup var evaluation: EvaluationFlags

    func run() async throws {
        ServiceMain.raiseFileLimit()
        let configuration = try ServiceConfiguration(
            options, projection: projection, providers: providers, port: AllServices.defaultPort)
        let logger = Logger(label: "mimeo")
        let services = try AllServices(
            configuration, replicator: try replicator.options(configuration),
            evaluation: try evaluation.options(configuration), logger: logger)
        let host = ServiceHost(
            parts: services.parts, listen: configuration.listen,
            tls: try configuration.tlsFiles(logger: logger), cors: configuration.cors, logger: logger
        ) { address in
            let (id, token) = services.development
            ServiceMain.say("url: \(address.origin)", "database: \(id)", "token: \(token)")
            ServiceMain.say(Self.examples(origin: address.origin, databaseID: id, token: token))
        }
        do {
            try await host.run(signals: ServiceMain.stopSignals)
        } catch {
            await services.close()
            throw error
        }
        await services.close()
    }

    /// Three example commands, ready to paste into a shell.
    static func examples(origin: String, databaseID: String, token: String) -> String {
        let login = "--url \(origin) --database \(databaseID) --token \(token)"
        let mimeo = CommandLine.arguments.first ?? "mimeo"
        return """

            Three commands to try, in another terminal:

              \(mimeo) dql \(login) "INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'seats': 4})"

              \(mimeo) dql \(login) --format table "SELECT * FROM cars"

              \(mimeo) peer --store ./peer-a --provider development \(login) --subscribe "SELECT * FROM cars"

            """
    }
}
