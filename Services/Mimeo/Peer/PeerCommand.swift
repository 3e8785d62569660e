import ArgumentParser
import CRDT
import DittoSwift
import Foundation
import ServiceKit

/// `mimeo peer`: runs a small peer, driven over standard input.
struct PeerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peer", abstract: "Run a small peer, driven over standard input.",
        discussion: """
            Each input line is a DQL statement or a dot command, and gets one JSON line as answer. The dot \
            commands are .sync start, .sync stop, .wait N [SECONDS] (until the server has acknowledged \
            commit N), .observe SELECT, .links, .presence (the peers around this one), .presence observe, \
            .presence metadata JSON (what others are told of this one), .attach FILE (makes an attachment), \
            .fetch ID LEN FILE (fetches one, with events) and .status. Lines with the key "event" may come \
            between answers. \
            The end of the input ends the peer and cancels a login in flight.
            With --join the peer shows a code, as an event and to a terminal; a person who is signed in at \
            the console, or mimeo admin joins answer, approves it. The store keeps the credential that it \
            gets.
            Peers of one local network find each other with --lan. Elsewhere they link by --listen-tcp, \
            --connect, --listen-ws and --connect-ws. All of this works without a server, or beside one if \
            --url is given. Without a server they prove who they are with --shared-key; without that they \
            speak in the clear and trust everybody.
            A peer is offline-first: it works on its store with or without a server. A refused login and \
            an unreachable server become events and part of .status; they are retried and do not change \
            the exit code 0. Exit code 1 if the store cannot be opened, 2 if an option is wrong, 4 if \
            another process uses the store. Exit code 3 is for commands that need the server.
            """)

    @Option(setting: "store") var store: String?
    @OptionGroup var server: ServerTarget
    @OptionGroup var keys: APIKeyOptions
    @Option(help: ArgumentHelp("A query to subscribe to; may be repeated.", valueName: "select"))
    var subscribe: [String] = []
    @Option(
        help: ArgumentHelp("The name of this device for others, at most 24 bytes.", valueName: "name"))
    var deviceName: String?
    @Option(
        help: ArgumentHelp(
            "A server to join with a code that a person there approves, instead of --url and a token.",
            valueName: "origin"), transform: GivenText.of("--join"))
    var join: String?
    @Flag(help: "Do not connect before `.sync start`.")
    var offline = false
    @OptionGroup var links: LinkOptions

    func run() async throws {
        let sources = try server.sources()
        guard let store = store ?? sources.text("store") else {
            throw MimeoError(.usage, "--store is missing")
        }
        let instead = [server.url, server.token, server.tokenFile, keys.apiKey, keys.apiKeyFile]
        guard join == nil || instead.allSatisfy({ $0 == nil }) else {
            throw MimeoError(.usage, "--join takes the place of --url and of a token or API key")
        }
        let isNamed =
            join != nil || server.url != nil || sources.text("url", in: .environment) != nil
            || sources.text("url", in: .file) != nil
        // A peer with links needs no server, so a server that only happens to run here is none of its.
        let hasServer = isNamed || !links.hasAny && sources.running["url"] != nil
        if hasServer, join == nil { server.tellFound(sources) }
        guard hasServer || links.hasAny else {
            throw MimeoError(
                .usage,
                "--url is missing; without a server a peer needs --lan, --listen-tcp, --connect, --listen-ws"
                    + " or --connect-ws")
        }
        let config = try links.transportConfig()
        let login = hasServer && join == nil ? try await server.login(keys: keys) : nil
        let databaseID = try login?.databaseID ?? server.databaseID(sources)
        let connect: DittoConfigConnect =
            hasServer
            ? .server(url: try join.map(RemoteRunner.checked) ?? server.origin(sources))
            : .smallPeersOnly(privateKey: try links.key())
        guard !hasServer || links.sharedKey == nil else {
            throw MimeoError(
                .usage, "--shared-key is for peers without a server: with --url they have certificates of it")
        }
        let ditto = try await Ditto.openAlone(of: databaseID, in: store, connect: connect)
        ditto.transportConfig = config
        if let deviceName { ditto.deviceName = deviceName }
        let output = LineWriter.standardOutput
        let console = PeerConsole(ditto: ditto, output: output)
        if join != nil {
            console.join(deviceName: ditto.deviceName, tellsPerson: DQLCommand.isOnTerminal)
        }
        if let login { console.logIn(token: login.token, provider: login.provider) }
        do {
            for query in subscribe { try ditto.sync.registerSubscription(query: query) }
            if !offline { try ditto.sync.start() }
        } catch {
            await ditto.close()
            throw MimeoError(.usage, error.localizedDescription)
        }
        if DQLCommand.isOnTerminal {
            await PeerPrompt(console: console, store: store, database: databaseID).run()
            return await ditto.close()
        }
        while let line = await StandardInput.shared.next() {
            guard line.contains(where: { !$0.isWhitespace }) else { continue }
            output.write(await console.answer(line))
        }
        await ditto.close()
    }
}

extension Ditto {
    /// Opens a store for a command.
    /// - Throws: `CLI-0101`, `CLI-0201`, `CLI-0202`.
    static func openAlone(
        of databaseID: String, in store: String, connect: DittoConfigConnect
    ) async throws -> Ditto {
        try StoreFolder.check(store)
        do {
            return try await Ditto.openAlone(
                config: DittoConfig(
                    databaseID: databaseID, connect: connect,
                    persistenceDirectory: URL(fileURLWithPath: store, isDirectory: true)))
        } catch DittoSwiftError.validationError(let reason) {
            throw MimeoError(.usage, DittoSwiftError.validationError(reason: reason).localizedDescription)
        } catch {
            throw MimeoError(opening: error)
        }
    }
}
