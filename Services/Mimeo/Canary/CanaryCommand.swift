import ArgumentParser
import DittoSwift
import Foundation
import Logging
import ServiceKit

/// `mimeo canary`: a peer that tries the whole way again and again, and serves the result as metrics.
struct CanaryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "canary", abstract: "Try the way of a write again and again, as a peer does.",
        discussion: """
            In each round this peer writes a document, waits until the server shows it over HTTP, changes it \
            there, and waits until the change is here: login, sync, log, projection and the way back. \
            /metrics has the time of the last round as mimeo_canary_seconds, which grows while a round \
            waits, and mimeo_canary_failures_total with the stage that took too long. Give it a database and \
            a login provider of its own: it writes one document of the collection mimeo_canary.
            With --once it ends after one round, with exit code 3 if that fails.
            """)

    @Option(setting: "store") var store: String?
    @OptionGroup var server: ServerTarget
    @OptionGroup var keys: APIKeyOptions
    @Option(setting: "listen") var listen: String?
    @Option(help: ArgumentHelp("Seconds from one round to the next. Default: 10.", valueName: "seconds"))
    var interval: UInt32 = 10
    @Option(
        help: ArgumentHelp("Seconds after which a round has failed. Default: 30.", valueName: "seconds"))
    var patience: UInt32 = 30
    @Flag(help: "Do one round and end.")
    var once = false

    func validate() throws {
        guard interval >= 1, patience >= 1 else {
            throw ValidationError("--interval and --patience are 1 or more")
        }
    }

    func run() async throws {
        let sources = try server.sources()
        guard let store = store ?? sources.text("store") else {
            throw MimeoError(.usage, "--store is missing")
        }
        let address = try ListenAddress(listen ?? sources.text("listen") ?? Self.usualAddress)
        let login = try await server.login(keys: keys)
        let rounds = try CanaryRounds(
            ditto: await Ditto.openAlone(
                of: login.databaseID, in: store, connect: .server(url: server.origin(sources))),
            login: CanaryRounds.Login(
                origin: server.origin(sources), databaseID: login.databaseID,
                provider: login.provider, token: login.token),
            patience: .seconds(patience), logger: Logger(label: "canary"))
        if once {
            let time = await rounds.once()
            await rounds.close()
            guard let time else { throw MimeoError(.serverUnreachable, rounds.lastFailure) }
            LineWriter.standardOutput.write(["seconds": .double(time / .seconds(1))])
            return
        }
        let part = CanaryPart(rounds: rounds, interval: .seconds(interval))
        let host = ServiceHost(parts: [part], listen: address, logger: Logger(label: "canary")) {
            ServiceMain.say("url: \($0.origin)")
        }
        try await host.run(signals: ServiceMain.stopSignals)
    }

    /// Beside the services' own ports.
    private static let usualAddress = "127.0.0.1:4005"
}

/// The metrics and the health of the rounds.
struct CanaryPart: ServicePart {
    let rounds: CanaryRounds
    let interval: Duration

    var name: String { "canary" }

    func mount(on mount: inout ServiceMount) throws {
        let (rounds, interval) = (rounds, interval)
        mount.background("canary") {
            while true {
                let next = ContinuousClock.now + interval
                _ = await rounds.once()
                try await Task.sleep(until: next, clock: .continuous)
            }
        }
    }

    func stop() async { await rounds.close() }

    func health() async -> HealthCheck {
        let failure = rounds.lastFailure
        return failure.isEmpty ? .ok : .failing(failure)
    }

    func measure() async { rounds.measure() }
}
