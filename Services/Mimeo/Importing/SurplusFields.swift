import CRDT

/// Fields that documents of the target have and their records in a file have not: an import that replaces
/// documents removes them.
struct SurplusFields: Equatable {
    /// The paths, as an UNSET has them.
    var paths: [String]
    var ids: [Value]

    /// Finds the fields of documents, in groups of documents with the same ones, in the order of the
    /// documents.
    /// - Parameter pairs: a stored document, and the record that replaces it.
    static func groups(_ pairs: [(stored: ObjectValue, record: ObjectValue)]) -> [SurplusFields] {
        var groups: [SurplusFields] = []
        var places: [[String]: Int] = [:]
        for pair in pairs {
            guard let id = pair.stored["_id"] else { continue }
            let paths = paths(pair.stored.without("_id"), pair.record, [])
            guard !paths.isEmpty else { continue }
            if let place = places[paths] {
                groups[place].ids.append(id)
            } else {
                places[paths] = groups.count
                groups.append(SurplusFields(paths: paths, ids: [id]))
            }
        }
        return groups
    }

    /// Nested objects are maps, whose fields an update merges one by one.
    private static func paths(_ stored: ObjectValue, _ record: ObjectValue, _ outer: [String]) -> [String] {
        stored.entries.flatMap { entry -> [String] in
            let path = outer + [entry.key]
            guard let kept = record[entry.key] else { return [Self.quoted(path)] }
            guard let old = entry.value.objectValue, let new = kept.objectValue else { return [] }
            return paths(old, new, path)
        }
    }

    private static func quoted(_ path: [String]) -> String {
        path.map { "`\($0.replacing("`", with: "``"))`" }.joined(separator: ".")
    }
}

extension Importer {
    /// The fields to remove after records were written; none for documents that do not exist.
    func surplusFields(_ records: ArraySlice<DocumentRecord>) async throws -> [SurplusFields] {
        var known: [[UInt8]: ObjectValue] = [:]
        for record in records {
            if let id = record.document["_id"] { known[CBOR.encode(id)] = record.document }
        }
        guard !known.isEmpty else { return [] }
        let ids = records.compactMap { $0.document["_id"] }
        let stored = try await succeed(
            "SELECT * FROM \(collection.quoted) USE IDS LIST :ids",
            ObjectValue([(key: "ids", value: .array(ids))]))
        return SurplusFields.groups(
            stored.items.compactMap(\.objectValue).compactMap { document in
                document["_id"].flatMap { known[CBOR.encode($0)] }.map { (document, $0) }
            })
    }

    /// Removes fields; returns the commit.
    func remove(_ fields: SurplusFields) async throws -> UInt64 {
        try await succeed(
            "UPDATE \(collection.quoted) UNSET \(fields.paths.joined(separator: ", ")) WHERE _id IN :ids",
            ObjectValue([(key: "ids", value: .array(fields.ids))])
        ).commitID
    }

    private func succeed(_ statement: String, _ arguments: ObjectValue) async throws -> Answer.Result {
        switch try await runner.run(statement, arguments: arguments) {
        case .result(let result): return result
        case .failure(let problem):
            throw MimeoError(.importFailed, "documents could not be replaced: \(problem.text)")
        }
    }
}
