import ArgumentParser
import CRDT
import DittoSwift
import Foundation

/// `mimeo import`: documents of a file into a store.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Import a JSON, NDJSON or CSV file into a store.",
        discussion: """
            .json: an array of objects, one object with exactly one array of objects in it, or a single \
            object. .ndjson, .jsonl: one object a line. .csv: RFC 4180 with a header row; a number, true \
            or false that reads back as written becomes one, an empty field is left out. A document that \
            exists is updated field by field. A byte order mark at the file's start is skipped.
            Not one transaction but one per up to \(Limits.importBatchDocuments) documents (or about 4 \
            MiB): after a failure, the documents of the transactions before stay imported.
            Prints {"collection", "documents", "updated", "commitID"}: how many documents were read and \
            written, and how many of those updated one of the store or an earlier one of the file.
            """)

    @Option(help: ArgumentHelp("The store's directory.", valueName: "dir"))
    var store: String
    @Option(help: "The collection to import into.")
    var collection: String
    @Option(
        help: ArgumentHelp("The field whose value becomes _id; it stays a field too.", valueName: "field"))
    var id: String?
    @Argument(help: ArgumentHelp("The file.", valueName: "file"))
    var file: String

    func run() async throws {
        let documents = try DocumentFile(path: file)
        let runner = try await LocalRunner(store: store)
        let importer = Importer(ditto: runner.ditto, collection: collection, idField: id)
        do {
            let outcome = try await importer.run(documents)
            LineWriter.standardOutput.write([
                "collection": .string(collection), "documents": .int(Int64(outcome.documents)),
                "updated": .int(Int64(outcome.updated)), "commitID": .int(Int64(clamping: outcome.commit)),
            ])
        } catch {
            await runner.close()
            throw error
        }
        await runner.close()
    }
}
