import ArgumentParser
import CRDT
import DittoSwift
import Foundation

/// `mimeo import`: imports the documents of a file into a store.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Import a JSON, NDJSON or CSV file into a store.",
        discussion: """
            .json: an array of objects, an object with exactly one array of objects in it, or a single \
            object. .ndjson, .jsonl: one object per line. .csv: RFC 4180 with a header row; a field becomes \
            a number, true or false if that prints as the same text, and an empty field is left out. An \
            existing document is updated field by field. A byte order mark at the file's start is skipped.
            Each transaction holds up to \(Limits.importBatchDocuments) documents (or about 4 MiB); after \
            an error, the documents of earlier transactions stay imported.
            Prints {"collection", "documents", "updated", "commitID"}: the number of documents read and \
            written, and how many of them updated a document of the store or an earlier one of the file.
            """)

    @Option(help: ArgumentHelp("The store's directory.", valueName: "dir"))
    var store: String
    @Option(help: "The collection to import into.")
    var collection: String
    @Option(
        help: ArgumentHelp("The field to copy to _id; it also stays a field.", valueName: "field"))
    var id: String?
    @Argument(help: ArgumentHelp("The file to import.", valueName: "file"))
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
