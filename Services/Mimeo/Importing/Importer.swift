import CRDT
import DittoSwift

/// Writes documents in transactions of bounded size, in their order.
struct Importer {
    let ditto: Ditto
    let collection: String
    let idField: String?

    /// What an import came to.
    struct Outcome: Equatable {
        /// How many documents were read and written.
        var documents = 0
        /// How many of them updated a document: one of the store, or an earlier one of the same file.
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

    /// - Throws: `CLI-0401`, `CLI-0403` for the file, `CLI-0404` for its documents. Batches before stay
    ///   written.
    func run(_ file: DocumentFile) async throws -> Outcome {
        var outcome = Outcome()
        var batch = Batch()
        // Nobody else writes to an open store, so that what it holds more is what was inserted.
        let before = try await count()
        do {
            var reader = try file.reader()
            while let record = try reader.next() {
                let document = try withID(record)
                // One statement takes an id once; the second of two equal ids updates the first.
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

    /// How many documents the collection holds.
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
            throw MimeoError(.fileMalformed, "\(record.place): the document has no field '\(idField)'")
        }
        // Texts of a table are typed by their look; as ids they stay what they are, or 007 and 8 would be
        // ids of two types.
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
                "\(batch.firstPlace): none of \(batch.documents.count) documents "
                    + "from here on was stored: \(error.code): \(error.message)")
        }
    }
}
