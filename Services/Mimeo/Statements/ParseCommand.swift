import ArgumentParser
import CRDT
import DQL
import DittoSwift

/// `mimeo parse`: prints the syntax trees of statements.
struct ParseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "parse", abstract: "Print the syntax tree of DQL statements.",
        discussion: """
            Prints one JSON line per statement: {"ok": true, "ast": …} or {"ok": false, "error": {"code", \
            "message", "line", "column"}}. Names and functions are not checked. With --legacy each text \
            is a query of the legacy language; "ast" is the tree of its condition, and "dql" the condition \
            in DQL. Exit code 1 if any statement is wrong.
            """)

    @Argument(help: "A statement; - reads one per line and skips empty lines and lines that begin with --.")
    var statement = "-"

    @Flag(help: "Parse queries of the legacy language, like color == 'red' && year >= $args.year.")
    var legacy = false

    func run() async throws {
        var anyFailed = false
        for try await text in StatementSource.statements(statement) {
            let answer = legacy ? Self.legacyAnswer(text) : Self.answer(text)
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
    static func legacyAnswer(_ text: String) -> Value {
        do {
            let condition = try LegacyQuery.parse(text)
            return ["ok": true, "ast": condition.jsonValue, "dql": .string(condition.text)]
        } catch {
            return ["ok": false, "error": Answer.Problem(Failure(error)).json]
        }
    }
}
