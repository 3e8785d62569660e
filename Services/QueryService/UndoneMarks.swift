import CRDT
import DQL
import OperationLog
import ServiceKit

/// The marks of what was taken back: one for each document and operation, so that a counter is counted back
/// once, in however many tabs and by whichever users (decision 0195).
///
/// A mark is a document beside the kept answers, written by the operation that takes the document back. Only
/// a statement that changes a document leaves a mark for it, so whoever may not write the document can take
/// its turn from nobody; and an operation that is not there yet has no marks.
enum UndoneMarks {
    /// The document that is the mark.
    static func key(of document: DocumentKey, in operation: Offset) throws -> DocumentKey {
        let id = try DocumentID(.string(IdempotencyKey.mark(of: document, in: operation)))
        return DocumentKey(collection: KeptAnswers.collection, id: id)
    }

    /// The document that a statement takes back.
    /// - Throws: `QUERY-0101` for a statement that does not name one document.
    static func document(of step: WriteLane.Job.Step) throws -> DocumentKey {
        let named = step.statement.namedDocuments(step.arguments)
        guard named.count == 1 else { throw unnamed }
        return named[0]
    }

    /// The refusal of a statement that could write a document which it does not name.
    static let unnamed = QueryError(
        .malformedRequest,
        "with a key that begins with \(IdempotencyKey.undoPrefix) each statement writes one document, which "
            + "it names by its _id")

    /// Returns whether a mark is there, and not too old.
    static func contains(
        _ mark: DocumentKey, in documents: some DocumentSource, since: Int64
    ) throws -> Bool {
        var isThere = false
        try documents.lookup(mark.collection, mark.id) { record in
            isThere = (try record.document.root.value()["at"]?.intValue ?? 0) > since
        }
        return isThere
    }
}

extension WriteWork {
    /// Executes the statements whose documents were not taken back before, and leaves their marks.
    /// - Throws: `QUERY-0307` if there are none, `QUERY-0501` for an operation beyond the head, `QUERY-0101`
    ///   for a statement that has changed another document than it names.
    func undo(
        _ operation: Offset, in writer: any DocumentWriter, _ options: ExecutionOptions
    ) throws -> StatementResult {
        guard operation <= readAt else { throw QueryError(.futureOffset, "\(readAt)") }
        let documents = try job.steps.map { try UndoneMarks.document(of: $0) }
        let marks = try documents.map { try UndoneMarks.key(of: $0, in: operation) }
        let areDone = try marks.map { try UndoneMarks.contains($0, in: writer, since: since) }
        guard areDone.contains(false) else { throw QueryError(.alreadyUndone) }
        let result = try job.execute(in: writer, options) { areDone[$0] }
        var counted = bytes
        try counted.add(result.rows)
        var written: Set<DocumentID> = []
        for (place, step) in (job.transaction?.results ?? [result]).enumerated() {
            // Another one beside the one that it names, as an expression or a new id.
            guard step.mutatedDocumentIDs.allSatisfy({ $0 == documents[place].id }) else {
                throw UndoneMarks.unnamed
            }
            guard !step.mutatedDocumentIDs.isEmpty, written.insert(marks[place].id).inserted else { continue }
            try writer.edit(marks[place].collection, marks[place].id) {
                try $0.create(ObjectValue([(key: "at", value: .int(now))]))
            }
        }
        if !written.isEmpty { try KeptAnswers.remove(old, except: written, in: writer) }
        return result
    }
}
