import ArgumentParser
import CRDT
import Foundation
import ServiceKit

/// `mimeo dql`: runs statements on a local store or on a server.
struct DQLCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dql", abstract: "Run DQL statements on a local store or on a server.",
        discussion: """
            Without a statement, on a terminal, there is a prompt with history and completion; .help lists \
            its commands. Elsewhere a statement per line is read from standard input.
            Where the output is no terminal, prints one JSON object per statement: {"items", \
            "mutatedDocumentIDs", "commitID", "warnings"}, or {"error": {"code", "message", "line", \
            "column"}}. After an error the next statement still runs. The other formats are for people \
            and for other programs; in them errors go to standard error, and EXPLAIN and PROFILE print a \
            tree, except in csv.
            Exit code 1 if a statement failed, 3 if the server is unreachable or refuses the login, 4 if \
            another process uses the store; a prompt ends with 0.
            """)

    @OptionGroup var target: TargetOptions
    @Option(help: ArgumentHelp("Arguments of the statements, a JSON object.", valueName: "json"))
    var args: String?
    @Option(
        help: ArgumentHelp(
            "Format: json, table, csv, markdown or vertical (default: table on a terminal, else json).",
            valueName: "format"))
    var format: OutputFormat?
    @Argument(help: "A statement; - reads one per line and skips empty lines and lines that begin with --.")
    var statement: String?

    func validate() throws {
        _ = try arguments()
    }

    func run() async throws {
        let arguments = try arguments()
        try await target.withRunner { runner in
            if statement == nil, Self.isOnTerminal { return try await prompt(runner, arguments) }
            if try await runAll(runner, arguments) { throw ExitCode(1) }
        }
    }

    /// Runs the statements of the command line or of standard input; returns whether one failed.
    private func runAll(_ runner: any StatementRunner, _ arguments: ObjectValue) async throws -> Bool {
        let format = format ?? (isatty(STDOUT_FILENO) == 1 ? .table : .json)
        var anyFailed = false
        var isFirst = true
        for try await text in StatementSource.statements(statement ?? "-") {
            let answer = try await runner.run(text, arguments: arguments)
            anyFailed = anyFailed || answer.isFailure
            let formatted = FormattedAnswer(answer, of: text, as: format)
            if let output = formatted.output {
                // Tables of different statements have different columns.
                let isSeparated = format != .json && format != .table && !isFirst
                LineWriter.standardOutput.write(text: (isSeparated ? "\n" : "") + output)
                isFirst = false
            }
            if let remark = formatted.remark { LineWriter.standardError.write(text: remark) }
        }
        return anyFailed
    }

    /// True if a person is at both ends.
    static var isOnTerminal: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 }

    private func prompt(_ runner: any StatementRunner, _ arguments: ObjectValue) async throws {
        let names = NameCatalog(runner)
        let editor = LineEditor(history: HistoryFile()) { before, line, cursor in
            Completion(before: before, line: line, cursor: cursor, names: names)
        }
        guard let editor else { throw MimeoError(.usage, "the terminal cannot be used; give a statement") }
        let output = LineWriter.standardOutput
        output.write(
            text:
                "mimeo \(BuildVersion.text), \(try target.target().name); .help lists the commands")
        let prompt = Prompt(
            runner: runner, arguments: arguments, format: format ?? .table, lines: editor, output: output,
            remarks: .standardError, changed: names.forget)
        prompt.width = { LineEditor.width }
        await prompt.run()
    }

    private func arguments() throws -> ObjectValue {
        guard let args else { return ObjectValue() }
        do {
            guard let object = try JSONText.parseStrictly(Array(args.utf8)).objectValue else {
                throw ValidationError("--args must be a JSON object")
            }
            return object
        } catch let error as CRDTError {
            throw ValidationError("--args: \(error.message)")
        }
    }
}
