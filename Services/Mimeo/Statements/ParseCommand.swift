import ArgumentParser
import CRDT
import DQL
import DittoSwift

/// `mimeo parse`: shows how statements are understood.
struct ParseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "parse", abstract: "Print the syntax tree of DQL statements.",
        discussion: """
            One JSON line a statement: {"ok": true, "ast": …} or {"ok": false, "error": {"code", \
            "message", "line", "column"}}. Names and functions are not checked. Exit code 1 if any \
            statement is wrong.
            """)

    @Argument(help: "A statement; - reads one a line, skipping empty lines and lines that begin with --.")
    var statement = "-"

    func run() async throws {
        var anyFailed = false
        for try await text in StatementSource.statements(statement) {
            let answer = Self.answer(text)
            anyFailed = anyFailed || answer["ok"] == false
            LineWriter.standardOutput.write(answer)
        }
        if anyFailed { throw ExitCode(1) }
    }

    static func answer(_ text: String) -> Value {
        do {
            return ["ok": true, "ast": try StatementCompiler.parse(text).jsonValue]
        } catch {
            return ["ok": false, "error": Answer.Problem(Failure(error)).json]
        }
    }
}
