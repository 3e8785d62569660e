import ArgumentParser
import AttachmentStore
import AuthGateway
import Logging
import Replicator
import ServiceKit
import Synchronization

/// `mimeo serve`: all four services in this process.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the whole server: login, sync, DQL over HTTP, attachments.")

    @OptionGroup var options: ServiceOptions
    @OptionGroup var projection: ProjectionOptions
    @OptionGroup var providers: ProviderOptions
    @OptionGroup var replicator: SessionFlags
    @OptionGroup var housekeeping: HousekeepingFlags
    @OptionGroup var attachments: AttachmentFlags
    @OptionGroup var evaluation: EvaluationFlags

    func run() async throws {
        ServiceMain.raiseFileLimit()
        let configuration = try ServiceConfiguration(
            options, projection: projection, providers: providers, port: AllServices.defaultPort)
        let logger = Logger(label: "mimeo")
        let services = try AllServices(
            configuration, options: try partOptions(configuration), logger: logger,
            // So that each service's lines have its name, and its level can be changed.
            named: { Logger(label: $0) })
        let note = Mutex<RunningServer?>(nil)
        defer { note.withLock { $0?.end() } }
        let folder = try configuration.folder()
        let host = try ServiceHost(configuration, parts: services.parts, logger: logger) { address in
            let development = services.development
            note.withLock {
                $0 = RunningServer(
                    folder: folder, url: address.origin, database: development.id,
                    tokenFile: development.tokenFile)
            }
            ServiceMain.say("url: \(address.origin)", "database: \(development.id)")
            ServiceMain.say(development.tokenLine(isShown: configuration.showsToken))
            if development.isAccepted {
                ServiceMain.say(Self.examples(origin: address.origin, development))
            }
        }
        do {
            try await host.run(signals: ServiceMain.stopSignals)
        } catch {
            await services.close()
            throw error
        }
        await services.close()
    }

    private func partOptions(_ configuration: ServiceConfiguration) throws -> AllServices.Options {
        var options = AllServices.Options()
        options.sessions = try replicator.options(configuration)
        options.housekeeping = try housekeeping.options(configuration)
        options.evaluation = try evaluation.options(configuration)
        options.attachments = try attachments.options(configuration)
        return options
    }

    /// Three example commands, ready to paste into a shell. The token is in none: a command line can be seen
    /// by others.
    static func examples(origin: String, _ development: DevelopmentDatabase) -> String {
        let login =
            "--url \(origin) --database \(development.id) --token-file \(shellWord(development.tokenFile))"
        let mimeo = CommandLine.arguments.first ?? "mimeo"
        return """

            Three commands to try, in another terminal:

              \(mimeo) dql \(login) "INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'seats': 4})"

              \(mimeo) dql \(login) --format table "SELECT * FROM cars"

              \(mimeo) peer --store ./peer-a --provider development \(login) --subscribe "SELECT * FROM cars"

            """
    }

    /// A path as a shell reads it.
    private static func shellWord(_ path: String) -> String {
        let isPlain = path.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-".contains($0)) }
        return isPlain ? path : "'" + path.replacing("'", with: "'\\''") + "'"
    }
}
