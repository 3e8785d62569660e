import ArgumentParser
import CRDT
import DQL
import DittoSwift
import Foundation
import ServiceKit

/// `mimeo export`: writes documents of a store or a server to a file.
struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Export documents of a store or a server as NDJSON, JSON or CSV.",
        discussion: """
            Writes a collection, or the rows of a SELECT, in a form that `mimeo import` reads back \
            unchanged. NDJSON and JSON need no flag for that. A CSV has one type a column: texts are \
            quoted, numbers and booleans are not; a column with nested values, nulls or several types \
            holds JSON texts, which need --types at the import. Counters and attachments come back as \
            plain values.
            Prints {"format", "documents", "warnings"}, for a CSV also "columns" with the types and \
            "importOptions" for the import; to stderr if the documents go to stdout.
            """)

    @OptionGroup var target: TargetOptions
    @Option(help: "The collection to export.")
    var collection: String?
    @Option(help: ArgumentHelp("A SELECT whose rows are exported.", valueName: "select"))
    var query: String?
    @Option(help: "The format: ndjson, json or csv.")
    var format = ExportFormat.ndjson
    @Option(
        help: ArgumentHelp("The file to write; standard output if missing.", valueName: "file"),
        transform: GivenText.of("--output"))
    var output: String?

    func validate() throws {
        guard (collection == nil) != (query == nil) else {
            throw ValidationError("give either --collection or --query")
        }
    }

    func run() async throws {
        // First: a command that has no target must not empty the file.
        _ = try target.target()
        let rows = try rows()
        let notes = ImportNotes()
        let sink = try ExportSink(path: output)
        var statementWarnings: [Value] = []
        var answer = ObjectValue([(key: "format", value: .string(format.rawValue))])
        try await target.withRunner { runner in
            var writer = try format.writer(sink, notes, columns: rows.columns)
            var count: Int64 = 0
            let told = try await rows.forEach(runner) { row in
                try writer.add(row)
                count += 1
            }
            statementWarnings = told
            try writer.finish(&answer)
            try sink.finish()
            answer["documents"] = .int(count)
        }
        answer["warnings"] = .array(statementWarnings + (notes.json.arrayValue ?? []))
        CommandReport(answer).write(to: output == nil ? STDERR_FILENO : STDOUT_FILENO)
    }

    private func rows() throws -> ExportRows {
        if let collection {
            return .collection(
                try NamedCollection(
                    collection, advice: "; --query \"SELECT * FROM \(collection)\" exports its rows"))
        }
        let text = query ?? ""
        do {
            guard case .select = try StatementCompiler.parse(text) else {
                throw MimeoError(.usage, "--query must be a SELECT")
            }
        } catch let error as DQLError {
            throw MimeoError(.exportFailed, Answer.Problem(Failure(error)).text)
        }
        return .query(text)
    }
}

/// The documents or rows to export.
enum ExportRows {
    case collection(NamedCollection)
    case query(String)

    /// The names of columns that are known before there is a row.
    var columns: [String] {
        switch self {
        case .collection: ["_id"]
        case .query(let text): (try? StatementCompiler.compile(text))?.columnNames ?? []
        }
    }

    /// Calls `body` with each row in turn. A collection is read in parts, by ids that are read first, so that
    /// memory does not grow with its documents.
    /// - Returns: the warnings of the SELECT, or of a server about values of the documents.
    /// - Throws: `CLI-0301`, `CLI-0302`, `CLI-0405`.
    @discardableResult
    func forEach(
        _ runner: any StatementRunner, _ body: (ObjectValue) throws -> Void
    ) async throws -> [Value] {
        switch self {
        case .query(let text):
            let result = try await Self.result(runner, text)
            for row in result.items {
                guard let object = row.objectValue else {
                    throw MimeoError(.exportFailed, "a row of --query is no object; name its columns")
                }
                try body(object)
            }
            return result.warnings
        case .collection(let collection):
            let ids = try await Self.items(runner, "SELECT _id FROM \(collection.quoted)").compactMap {
                $0["_id"]
            }
            var warnings: [Value] = []
            for start in stride(from: 0, to: ids.count, by: Limits.exportBatchDocuments) {
                let part = ids[start..<min(start + Limits.exportBatchDocuments, ids.count)]
                let arguments = ObjectValue([(key: "ids", value: .array(Array(part)))])
                let text = "SELECT * FROM \(collection.quoted) USE IDS LIST :ids"
                let result = try await Self.result(runner, text, arguments)
                for row in result.items { try body(row.objectValue ?? ObjectValue()) }
                for warning in result.warnings where !warnings.contains(warning) { warnings.append(warning) }
            }
            return warnings
        }
    }

    private static func items(
        _ runner: any StatementRunner, _ text: String, _ arguments: ObjectValue = ObjectValue()
    ) async throws -> [Value] {
        try await result(runner, text, arguments).items
    }

    private static func result(
        _ runner: any StatementRunner, _ text: String, _ arguments: ObjectValue = ObjectValue()
    ) async throws -> Answer.Result {
        switch try await runner.run(text, arguments: arguments) {
        case .result(var result):
            // The writer tells this of the values that it has, and names their document.
            let changed = Value.string(MimeoNoteCode.valueChanged.rawValue)
            result.warnings.removeAll { $0["code"] == changed }
            return result
        case .failure(let problem): throw MimeoError(.exportFailed, problem.text)
        }
    }
}
