import CRDT
import DittoSwift
import ServiceKit

/// A peer on a terminal: the prompt of `mimeo dql` with the peer's own commands, and with its state of
/// connection before each line. Events of observers come between, as elsewhere.
struct PeerPrompt {
    let console: PeerConsole
    let store: String
    let database: String

    /// Runs until `.quit` or the end of the input.
    func run() async {
        let runner = LocalRunner(ditto: console.ditto)
        let names = NameCatalog(runner)
        let editor = LineEditor(history: HistoryFile()) { before, line, cursor in
            Completion(before: before, line: line, cursor: cursor, names: names)
        }
        guard let editor else { return LineWriter.standardError.write(text: "the terminal cannot be used") }
        let output = console.output
        output.write(
            text: """
                mimeo \(BuildVersion.text), a peer of database \(PlainLine.of(database)), store \
                \(PlainLine.of(store)); .help lists the commands
                Writes are kept here, and sent when there is a connection: the prompt says if there is one.
                """)
        let prompt = Prompt(
            runner: runner, arguments: ObjectValue(), format: .table, lines: editor, output: output,
            remarks: .standardError, changed: names.forget)
        prompt.width = { LineEditor.width }
        prompt.name = { [console] in console.ditto.sync.status.text }
        prompt.more = console
        await prompt.run()
    }
}

extension PeerConsole: PromptExtension {
    private static let commands: [(usage: String, meaning: String)] = [
        (".status", "connection, login, and what the server refused"),
        (".sync start|stop", "connect, or go offline"),
        (".links", "the other peers, and those that were found"),
        (".observe SELECT", "print the rows now and after each change"),
        (".presence [observe]", "the peers around this one"),
        (".wait N [SECONDS]", "wait until the server has everything up to commit N"),
        (".attach FILE", "keep a file, and get the token for a document"),
        (".fetch ID LEN FILE", "fetch an attachment into a file"),
    ]

    func answer(toCommand line: String) async -> Value? {
        let word = line.drop { $0.isWhitespace }.prefix { !$0.isWhitespace }
        guard Self.commands.contains(where: { $0.usage.prefix { $0 != " " } == word }) else { return nil }
        return await answer(line)
    }

    var helpText: String {
        let width = Self.commands.map(\.usage.count).max() ?? 0
        let lines = Self.commands.map { command in
            command.usage + String(repeating: " ", count: width - command.usage.count + 2) + command.meaning
        }
        return (["A peer also has:"] + lines).joined(separator: "\n")
    }
}
