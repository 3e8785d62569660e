import ArgumentParser
import CRDT
import Foundation

/// `mimeo dql`: runs statements on a local store or on a server.
struct DQLCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dql", abstract: "Run DQL statements on a local store or on a server.",
        discussion: """
            Prints one JSON object per statement: {"items", "mutatedDocumentIDs", "commitID", "warnings"}, \
            or {"error": {"code", "message", "line", "column"}}. After an error the next statement still \
            runs. Exit code 1 if a statement failed, 3 if the server is unreachable or refuses the login, \
            4 if another process uses the store.
            """)

    enum Format: String, ExpressibleByArgument, CaseIterable { case json, table }

    @OptionGroup var target: TargetOptions
    @Option(help: ArgumentHelp("Arguments of the statements, a JSON object.", valueName: "json"))
    var args: String?
    @Option(help: "Output format: json or table.")
    var format = Format.json
    @Argument(help: "A statement; - reads one per line and skips empty lines and lines that begin with --.")
    var statement = "-"

    func validate() throws {
        try target.check()
        _ = try arguments()
    }

    func run() async throws {
        let arguments = try arguments()
        let output = LineWriter.standardOutput
        var anyFailed = false
        try await target.withRunner { runner in
            for try await text in StatementSource.statements(statement) {
                let answer = try await runner.run(text, arguments: arguments)
                anyFailed = anyFailed || answer.isFailure
                show(answer, output)
            }
        }
        if anyFailed { throw ExitCode(1) }
    }

    private func show(_ answer: Answer, _ output: LineWriter) {
        switch (format, answer) {
        case (.json, _): output.write(answer.json)
        case (.table, .result(let result)): output.write(text: Table(result).text)
        case (.table, .failure(let problem)): LineWriter.standardError.write(text: problem.text)
        }
    }

    private func arguments() throws -> ObjectValue {
        guard let args else { return ObjectValue() }
        do {
            guard let object = try JSONText.parse(args).objectValue else {
                throw ValidationError("--args must be a JSON object")
            }
            return object
        } catch let error as CRDTError {
            throw ValidationError("--args is not JSON: \(error.message)")
        }
    }
}

/// The statements of a command: its argument, or the lines of standard input.
enum StatementSource {
    static func statements(_ argument: String) -> AsyncThrowingStream<String, any Error> {
        guard argument == "-" else {
            return AsyncThrowingStream { continuation in
                continuation.yield(argument)
                continuation.finish()
            }
        }
        let lines = StandardInput.shared
        return AsyncThrowingStream {
            while let line = await lines.next() {
                if isStatement(line) { return line }
            }
            return nil
        }
    }

    /// Returns whether a line is neither blank nor a comment.
    static func isStatement(_ line: String) -> Bool {
        let text = line.drop { $0.isWhitespace }
        return !text.isEmpty && !text.hasPrefix("--")
    }
}
