import CRDT
import DQL
import Identity
import OperationLog
import ServiceKit
import Synchronization

/// The answers to writes with an `Idempotency-Key` (decision 0060).
///
/// Each is a document of a collection that no grant covers (`CompiledRules.serversOwn`), written by the same
/// operation as the statement's changes: after any crash the log has both or neither. If two processes run
/// the same key at once, one finds the document of the other when its conditional append fails. The answers
/// of a user are bounded in number and size, and last for `QueryServicePart.Bounds.keptAnswers`; the next
/// writes with a key remove older ones.
enum KeptAnswers {
    static let collection = CollectionName(CompiledRules.serversOwn + "idempotency")

    /// An answer that was given before.
    struct Kept: Sendable {
        var request: String
        /// Seconds since 1970.
        var at: Int64
        /// The operation that wrote it, and an offset before it.
        var actor: String
        var sequence: Int64
        var readAt: Offset
        /// JSON of `items`, `ids`, `warnings`.
        var answer: String
    }

    /// The outcome of looking for a key while a write is drafted.
    final class Found: Sendable {
        private let content = Mutex<Kept?>(nil)
        var kept: Kept? {
            get { content.withLock { $0 } }
            set { content.withLock { $0 = newValue } }
        }
    }

    static func id(of key: IdempotencyKey) throws -> DocumentID { try DocumentID(.string(key.name)) }

    /// The document that holds the answer kept under a key.
    static func key(of key: IdempotencyKey) throws -> DocumentKey {
        DocumentKey(collection: collection, id: try id(of: key))
    }

    /// The answer that is kept under a key, if it is not too old.
    static func find(_ key: IdempotencyKey, in documents: some DocumentSource, since: Int64) throws -> Kept? {
        var found: Kept?
        try documents.lookup(collection, id(of: key)) { record in
            let fields = try record.document.root.value()
            guard let at = fields["at"]?.intValue, at > since else { return }
            found = Kept(
                request: fields["request"]?.stringValue ?? "", at: at,
                actor: fields["actor"]?.stringValue ?? "", sequence: fields["sequence"]?.intValue ?? 0,
                readAt: Offset(UInt64(clamping: fields["readAt"]?.intValue ?? 0)),
                answer: fields["answer"]?.stringValue ?? "{}")
        }
        return found
    }

    /// Keeps the answer of a statement, and removes old ones.
    static func keep(
        _ kept: Kept, under key: IdempotencyKey, removing old: [DocumentID], in writer: any DocumentWriter
    ) throws {
        let fields = ObjectValue([
            (key: "request", value: .string(kept.request)), (key: "at", value: .int(kept.at)),
            (key: "actor", value: .string(kept.actor)), (key: "sequence", value: .int(kept.sequence)),
            (key: "readAt", value: .int(Int64(clamping: kept.readAt.rawValue))),
            (key: "answer", value: .string(kept.answer)),
        ])
        let own = try id(of: key)
        try writer.edit(collection, own) { try $0.create(fields) }
        try remove(old, except: [own], in: writer)
    }

    /// Removes old answers and marks.
    static func remove(
        _ old: [DocumentID], except own: Set<DocumentID>, in writer: any DocumentWriter
    ) throws {
        for id in old where !own.contains(id) {
            guard try writer.exists(collection, id) else { continue }
            try writer.edit(collection, id) { $0.delete() }
        }
    }

    private static let tooLarge =
        "the first answer was too large to be kept: items and mutatedDocumentIds are missing here"

    /// The answer of a job without its offset, as JSON. A large one is kept without rows and ids.
    static func text(of result: StatementResult, _ job: WriteLane.Job) -> String {
        guard let results = job.results([]) else { return text(of: result) }
        let text = JSONText.print([
            "results": .array(
                results.map { one in
                    [
                        "kind": .string(one.queryType.rawValue), "items": .array(one.items),
                        "ids": .array(one.mutatedDocumentIDs),
                        "warnings": .array(one.warnings.map(\.value)),
                    ]
                })
        ])
        guard text.utf8.count > Limits.keptAnswerBytes else { return text }
        return JSONText.print(["kinds": .array(results.map { .string($0.queryType.rawValue) })])
    }

    private static func text(of result: StatementResult) -> String {
        func print(_ rows: [Value], _ ids: [Value], _ warnings: [AnswerWarning]) -> String {
            JSONText.print([
                "items": .array(rows), "ids": .array(ids), "warnings": .array(warnings.map(\.value)),
            ])
        }
        let warnings = result.warnings.map { AnswerWarning($0) }
        let text = print(result.rows, result.mutatedDocumentIDs.map(\.value), warnings)
        guard text.utf8.count > Limits.keptAnswerBytes else { return text }
        return print([], [], [AnswerWarning(tooLarge)])
    }

    /// The answer again.
    static func answer(_ kept: Kept, kind: StatementKind, at offset: Offset) -> ExecuteAnswer {
        let fields = (try? JSONText.parse(kept.answer))?.objectValue ?? ObjectValue()
        var answer = ExecuteAnswer(
            transactionID: offset, queryType: kind, items: fields["items"]?.arrayValue ?? [],
            mutatedDocumentIDs: fields["ids"]?.arrayValue ?? [],
            warnings: (fields["warnings"]?.arrayValue ?? []).compactMap { AnswerWarning($0) })
        answer.isRepeated = true
        if let results = fields["results"]?.arrayValue {
            answer.results = results.map { one in
                ExecuteAnswer(
                    transactionID: offset, queryType: Self.kind(one["kind"]),
                    items: one["items"]?.arrayValue ?? [], mutatedDocumentIDs: one["ids"]?.arrayValue ?? [],
                    warnings: (one["warnings"]?.arrayValue ?? []).compactMap { AnswerWarning($0) })
            }
        } else if let kinds = fields["kinds"]?.arrayValue {
            answer.results = kinds.map { kind in
                ExecuteAnswer(
                    transactionID: offset, queryType: Self.kind(kind), warnings: [AnswerWarning(tooLarge)])
            }
        }
        return answer
    }

    private static func kind(_ value: Value?) -> StatementKind {
        value?.stringValue.flatMap(StatementKind.init(rawValue:)) ?? .select
    }

    /// How many answers each user has, and which are too old.
    struct Census: Sendable {
        var counts: [String: Int] = [:]
        var old: [DocumentID] = []
        let at = ContinuousClock.now

        init(_ documents: some DocumentSource, since: Int64) throws {
            try documents.scan(KeptAnswers.collection) { record in
                let fields = try record.document.root.value()
                if (fields["at"]?.intValue ?? 0) <= since {
                    old.append(record.id)
                } else if case .string(let name) = record.id.value {
                    counts[String(name.prefix { $0 != "-" }), default: 0] += 1
                }
                return true
            }
        }
    }
}
