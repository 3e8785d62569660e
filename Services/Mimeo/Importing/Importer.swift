import CRDT
import DittoSwift

/// Writes the documents of a file in their order, in transactions of bounded size.
struct Importer {
    let ditto: Ditto
    let collection: String
    let idField: String?

    /// The result of an import.
    struct Outcome: Equatable {
        /// Number of documents read and written.
        var documents = 0
        /// Number of those that updated a document of the store, or an earlier one of the same file.
        var updated = 0
        /// The last commit.
        var commit: UInt64 = 0
    }

    private struct Batch {
        var documents: [Value] = []
        var bytes = 0
        var ids: Set<[UInt8]> = []
        var firstPlace = ""
    }

    /// Imports a file.
    /// - Throws: `CLI-0401`, `CLI-0403` for the file, `CLI-0404` for its documents. Earlier batches stay
    ///   written.
    func run(_ file: DocumentFile) async throws -> Outcome {
        var outcome = Outcome()
        var batch = Batch()
        // Nobody else writes to an open store, so the growth of the count is the number of inserts.
        let before = try await count()
        do {
            var reader = try file.reader()
            while let record = try reader.next() {
                let document = try withID(record)
                // A statement may contain an id only once, so a repeated id begins the next batch.
                let repeats = document["_id"].map { !batch.ids.insert(CBOR.encode($0)).inserted } ?? false
                let isFull =
                    batch.documents.count >= Limits.importBatchDocuments
                    || batch.bytes >= Limits.importBatchBytes
                if repeats || isFull {
                    try await write(&batch, &outcome)
                    if let id = document["_id"] { batch.ids.insert(CBOR.encode(id)) }
                }
                if batch.documents.isEmpty { batch.firstPlace = record.place }
                batch.documents.append(.object(document))
                batch.bytes += record.bytes
            }
            try await write(&batch, &outcome)
        } catch let error as MimeoError where outcome.documents > 0 {
            throw MimeoError(
                error.code, "\(error.message) (\(outcome.documents) documents before it were imported)")
        }
        outcome.updated = outcome.documents - (try await count() - before)
        return outcome
    }

    /// The number of documents in the collection.
    private func count() async throws -> Int {
        do {
            let counted = try await ditto.store.run(
                "SELECT COUNT(*) AS n FROM \(quotedName)", arguments: ObjectValue())
            return Int(counted.rows.first?["n"]?.intValue ?? 0)
        } catch {
            throw MimeoError(.importFailed, "\(error.code): \(error.message)")
        }
    }

    private var quotedName: String {
        "`" + collection.split(separator: "`", omittingEmptySubsequences: false).joined(separator: "``") + "`"
    }

    private func withID(_ record: DocumentRecord) throws -> ObjectValue {
        guard let idField else { return record.document }
        guard let id = record.document[idField] else {
            throw MimeoError(
                .fileMalformed, "\(record.place): the document has no field '\(idField)' for --id")
        }
        // Ids of a table stay strings: typed by their look, 007 and 8 would be ids of two types.
        let value: Value = record.isTable ? .string(record.text(of: idField) ?? "") : id
        return ObjectValue(
            [(key: "_id", value: value)] + record.document.entries.filter { !utf8Equal($0.key, "_id") })
    }

    private func write(_ batch: inout Batch, _ outcome: inout Outcome) async throws {
        guard !batch.documents.isEmpty else { return }
        do {
            let written = try await ditto.store.run(
                "INSERT INTO \(quotedName) DOCUMENTS (:documents) ON ID CONFLICT DO UPDATE",
                arguments: ObjectValue([(key: "documents", value: .array(batch.documents))]))
            outcome.documents += batch.documents.count
            outcome.commit = written.commit
            batch = Batch()
        } catch {
            throw MimeoError(
                .importFailed,
                "\(batch.firstPlace): the \(batch.documents.count) documents from here on were not stored: "
                    + "\(error.code): \(error.message)")
        }
    }
}
