import ArgumentParser
import CRDT
import DittoSwift
import Foundation

/// `mimeo peer`: a small peer without a screen, driven over standard input.
struct PeerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peer", abstract: "Be a small peer, driven over standard input.",
        discussion: """
            Each line is a DQL statement or a dot command and is answered by one JSON line: .sync start, \
            .sync stop, .wait N [SECONDS] (until the server has acknowledged commit N), .observe SELECT, \
            .status. Lines with the key "event" come in between. The end of the input ends the peer; a \
            login that is under way is then broken off.
            A peer is offline-first: it works on its store whether or not there is a server. A login that \
            is refused and a server that cannot be reached are events and part of .status, are tried \
            again, and leave the exit code 0. Exit code 1 if the store cannot be opened, 2 if an option is \
            wrong, 4 if the store is in use; never 3, which is for commands that cannot go on without \
            the server.
            """)

    @Option(help: ArgumentHelp("The store's directory.", valueName: "dir"))
    var store: String
    @Option(help: ArgumentHelp("The server, like http://127.0.0.1:4000.", valueName: "origin"))
    var url: String
    @Option(help: ArgumentHelp("The database on the server.", valueName: "id"))
    var database: String
    @Option(help: "Who checks the token.")
    var provider = "development"
    // A token may begin with a dash.
    @Option(parsing: .unconditional, help: "The provider's token.")
    var token: String
    @Option(help: ArgumentHelp("A query to subscribe to; may be given several times.", valueName: "select"))
    var subscribe: [String] = []
    @Flag(help: "Do not connect before `.sync start`.")
    var offline = false

    func run() async throws {
        let ditto = try await open()
        let output = LineWriter.standardOutput
        let console = PeerConsole(ditto: ditto, output: output)
        console.logIn(token: token, provider: provider)
        do {
            for query in subscribe { try ditto.sync.registerSubscription(query: query) }
            if !offline { try ditto.sync.start() }
        } catch {
            await ditto.close()
            throw MimeoError(.usage, error.localizedDescription)
        }
        while let line = await StandardInput.shared.next() {
            guard line.contains(where: { !$0.isWhitespace }) else { continue }
            output.write(await console.answer(line))
        }
        await ditto.close()
    }

    private func open() async throws -> Ditto {
        do {
            return try await Ditto.open(
                config: DittoConfig(
                    databaseID: database, connect: .server(url: url),
                    persistenceDirectory: URL(fileURLWithPath: store, isDirectory: true)))
        } catch DittoSwiftError.validationError(let reason) {
            throw MimeoError(.usage, DittoSwiftError.validationError(reason: reason).localizedDescription)
        } catch {
            throw MimeoError(opening: error)
        }
    }
}
