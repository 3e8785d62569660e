import CRDT
import DQL
import Machine
import OperationLog
import ServiceKit

extension WriteLane.Job {
    /// Documents that it looks up or edits, as far as its statements name them, the kept answer among them.
    var named: [DocumentKey] {
        let documents = steps.flatMap { $0.statement.namedDocuments($0.arguments) }
        guard let key else { return documents }
        if let operation = key.undone {
            return documents + documents.compactMap { try? UndoneMarks.key(of: $0, in: operation) }
        }
        return documents + ((try? KeptAnswers.key(of: key)).map { [$0] } ?? [])
    }
}

/// One write as it is drafted: the statement, within its writer's rights, and the answer that is kept under
/// its `Idempotency-Key`. It may run twice, so its only effects are the draft's, and `found`.
struct WriteWork: Sendable {
    let job: WriteLane.Job
    let bytes: AnswerBytes
    let now: Int64
    let since: Int64
    let actor: ActorID
    let readAt: Offset
    let isFull: Bool
    let old: [DocumentID]
    private let found = KeptAnswers.Found()

    init(
        job: WriteLane.Job, bytes: AnswerBytes, now: Int64, since: Int64, actor: ActorID, readAt: Offset,
        isFull: Bool, old: [DocumentID]
    ) {
        self.job = job
        self.bytes = bytes
        self.now = now
        self.since = since
        self.actor = actor
        self.readAt = readAt
        self.isFull = isFull
        self.old = old
    }

    /// Executes the statement on a draft whose operation would have this sequence.
    func run(
        in writer: any DocumentWriter, _ sequence: SequenceNumber, _ options: ExecutionOptions
    ) throws -> StatementResult {
        found.kept = nil
        if let operation = job.key?.undone { return try undo(operation, in: writer, options) }
        if let key = job.key {
            found.kept = try KeptAnswers.find(key, in: writer, since: since)
            if found.kept != nil { return StatementResult() }
            if isFull { throw QueryError(.tooManyIdempotencyKeys) }
        }
        let result = try job.execute(in: writer, options)
        var counted = bytes
        try counted.add(result.rows)
        if let key = job.key {
            let kept = KeptAnswers.Kept(
                request: key.request, at: now, actor: "\(actor)",
                sequence: Int64(clamping: sequence.rawValue), readAt: readAt,
                answer: KeptAnswers.text(of: result, job))
            try KeptAnswers.keep(kept, under: key, removing: old, in: writer)
        }
        return result
    }

    /// Notes on the draft what the run found.
    func complete(_ draft: inout StatementDraft) {
        draft.kept = found.kept
        draft.removedAnswers = old.count
    }
}
