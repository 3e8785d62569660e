import ArgumentParser
import CRDT
import Foundation

/// `mimeo dql`: statements on a store of this machine or on a server.
struct DQLCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dql", abstract: "Run DQL statements on a store or a server.",
        discussion: """
            Prints one JSON object a statement: {"items", "mutatedDocumentIDs", "commitID", "warnings"}, \
            or {"error": {"code", "message", "line", "column"}}; the next statement runs all the same. \
            Exit code 1 if one failed, 3 if the server cannot be reached or refuses us, 4 if the store \
            is in use.
            """)

    enum Format: String, ExpressibleByArgument, CaseIterable { case json, table }

    @Option(help: ArgumentHelp("The store's directory.", valueName: "dir"))
    var store: String?
    @Option(help: ArgumentHelp("The server, like http://127.0.0.1:4000.", valueName: "origin"))
    var url: String?
    @Option(help: ArgumentHelp("The database on the server.", valueName: "id"))
    var database: String?
    @Option(help: "Who checks the token.")
    var provider = "development"
    // A token may begin with a dash.
    @Option(parsing: .unconditional, help: "The provider's token; logged in with first.")
    var token: String?
    @Option(parsing: .unconditional, help: ArgumentHelp("An API key instead of a login.", valueName: "key"))
    var apiKey: String?
    @Option(help: ArgumentHelp("The statements' arguments, a JSON object.", valueName: "json"))
    var args: String?
    @Option(help: "json or table.")
    var format = Format.json
    @Argument(help: "A statement; - reads one a line, skipping empty lines and lines that begin with --.")
    var statement = "-"

    func validate() throws {
        guard (store == nil) != (url == nil) else { throw ValidationError("name either --store or --url") }
        guard url == nil || apiKey != nil || (database != nil && token != nil) else {
            throw ValidationError("--url needs --database and --token, or --api-key")
        }
        guard apiKey == nil || token == nil else { throw ValidationError("name either --token or --api-key") }
        _ = try arguments()
    }

    func run() async throws {
        let runner = try await makeRunner()
        let arguments = try arguments()
        let output = LineWriter.standardOutput
        var anyFailed = false
        do {
            for try await text in StatementSource.statements(statement) {
                let answer = try await runner.run(text, arguments: arguments)
                anyFailed = anyFailed || answer.isFailure
                show(answer, output)
            }
        } catch {
            await runner.close()
            throw error
        }
        await runner.close()
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
                throw ValidationError("--args is not a JSON object")
            }
            return object
        } catch let error as CRDTError {
            throw ValidationError("--args is not JSON: \(error.message)")
        }
    }

    private func makeRunner() async throws -> any StatementRunner {
        if let store { return try await LocalRunner(store: store) }
        let origin = url ?? ""
        if let apiKey { return try RemoteRunner(origin: origin, apiKey: apiKey) }
        return try await RemoteRunner(
            origin: origin, databaseID: database ?? "", provider: provider, token: token ?? "")
    }
}

/// The statements of a command line: one, or the lines of standard input.
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

    /// Neither blank nor a comment.
    static func isStatement(_ line: String) -> Bool {
        let text = line.drop { $0.isWhitespace }
        return !text.isEmpty && !text.hasPrefix("--")
    }
}
