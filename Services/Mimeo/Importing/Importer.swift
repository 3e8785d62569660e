import ArgumentParser
import CRDT

/// The action of an import on a document whose id exists: one that INSERT offers, or `replace`.
enum OnConflict: String, CaseIterable, ExpressibleByArgument {
    case fail, ignore, update, replace
    case updateLocalDiff = "update-local-diff"

    /// The clause of INSERT.
    var clause: String {
        switch self {
        case .fail: "FAIL"
        case .ignore: "DO NOTHING"
        case .update, .replace: "DO UPDATE"
        case .updateLocalDiff: "DO UPDATE_LOCAL_DIFF"
        }
    }
}

/// Writes the documents of a file in their order, in transactions of bounded size.
struct Importer {
    let runner: any StatementRunner
    let collection: NamedCollection
    var policy = OnConflict.update

    /// The result of an import.
    struct Outcome: Equatable {
        /// Number of documents read and written or ignored.
        var documents = 0
        /// Number of those that updated a document of the target, or an earlier one of the same file.
        var updated = 0
        /// Number of those that were ignored because their id exists.
        var ignored = 0
        /// The last commit.
        var commit: UInt64 = 0
        /// Number of documents of the target before the import.
        var before = 0
        /// Number of documents that came without an id, and got a new one.
        var nameless = 0

        /// Tells that documents without ids came beside others: a second import of a file makes all of them
        /// again.
        func note(collection: String, _ notes: ImportNotes) {
            guard nameless > 0, before > 0 else { return }
            notes.add(
                .idsMade,
                "\(nameless) \(nameless == 1 ? "document has" : "documents have") no _id and got new ones, "
                    + "beside the \(before) that were in '\(collection)' before: the same file would come in "
                    + "twice; --id FIELD takes the ids from a field")
        }
    }

    private struct Batch {
        var records: [DocumentRecord] = []
        var bytes = 0
        var ids: Set<[UInt8]> = []

        var isFull: Bool { records.count >= Limits.importBatchDocuments || bytes >= Limits.importBatchBytes }
    }

    /// Imports the records.
    /// - Throws: `CLI-0301`, `CLI-0302`, `CLI-0401`, `CLI-0403` for the file, `CLI-0404` for its documents.
    ///   Earlier batches stay written.
    func run(_ feed: RecordFeed, skips: SkippedRecords) async throws -> Outcome {
        var feed = feed
        var outcome = Outcome()
        var batch = Batch()
        // Nobody else writes to an open store, so the growth of the count is the number of inserts. On a
        // server others do; there the figure is as right as they are idle.
        let before = try await count()
        outcome.before = before
        do {
            while let record = try feed.next() {
                // A statement may contain an id only once, so a repeated id begins the next batch.
                let id = record.document["_id"].map(CBOR.encode)
                if batch.isFull || id.map(batch.ids.contains) ?? false {
                    try await write(batch.records[...], &outcome, skips)
                    batch = Batch()
                }
                if let id { batch.ids.insert(id) }
                batch.records.append(record)
                batch.bytes += record.bytes
            }
            try await write(batch.records[...], &outcome, skips)
        } catch let error as MimeoError where outcome.documents > 0 {
            throw MimeoError(
                error.code, "\(error.message) (\(outcome.documents) documents before it were imported)")
        }
        let written = outcome.documents - outcome.ignored
        outcome.updated = min(max(0, written - (try await count() - before)), written)
        return outcome
    }

    /// The number of documents in the collection.
    private func count() async throws -> Int {
        switch try await runner.run(
            "SELECT COUNT(*) AS n FROM \(collection.quoted)", arguments: ObjectValue())
        {
        case .result(let counted): Int(counted.items.first?["n"]?.intValue ?? 0)
        case .failure(let problem): throw MimeoError(.importFailed, problem.text)
        }
    }

    /// Writes records in one transaction. If that fails and records may be skipped, writes the halves.
    private func write(
        _ records: ArraySlice<DocumentRecord>, _ outcome: inout Outcome, _ skips: SkippedRecords
    ) async throws {
        guard let first = records.first else { return }
        let surplus = policy == .replace ? try await surplusFields(records) : []
        let answer = try await runner.run(
            "INSERT INTO \(collection.quoted) DOCUMENTS (:documents) ON ID CONFLICT \(policy.clause)",
            arguments: ObjectValue([(key: "documents", value: .array(records.map { .object($0.document) }))]))
        switch answer {
        case .result(let written):
            outcome.documents += records.count
            outcome.nameless += records.count { $0.document["_id"] == nil }
            if policy == .ignore { outcome.ignored += records.count - written.mutatedDocumentIDs.count }
            outcome.commit = max(outcome.commit, written.commitID)
            for fields in surplus { outcome.commit = max(outcome.commit, try await remove(fields)) }
        case .failure(let problem):
            guard skips.isAllowed, records.count > 1 else {
                let documents =
                    records.count == 1 ? "document was" : "\(records.count) documents from here on were"
                try skips.skip(
                    MimeoError(.importFailed, "\(first.place): the \(documents) not stored: \(problem.text)"))
                return
            }
            let middle = records.startIndex + records.count / 2
            try await write(records[..<middle], &outcome, skips)
            try await write(records[middle...], &outcome, skips)
        }
    }
}
