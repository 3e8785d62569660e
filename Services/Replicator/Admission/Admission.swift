import CRDT
import Exchange
import Machine
import OperationLog
import Replica
import ServiceKit
import Sync

/// The way of writes into one database's log: what peers upload (`Admission+Writes`), and what a restored log
/// takes back from them (`Admission+States`). `AdmissionCheck` judges; the actor knows what a judgement rests
/// on.
///
/// Invariants:
/// - An operation's origin is noted before its append, and taken when it is folded or was not appended.
/// - Nothing is appended after a judgement by a fold whose history the log lacks in that term.
/// - Nothing is refused for good before all that was appended here is folded.
/// - Folding yields to a session only while that session is there: each yield is ended once.
actor Admission {
    let materializer: Materializer
    let log: any OperationLog
    let database: DatabaseID
    /// Clock and randomness.
    let environment: Environment
    /// How uploads are divided, and how far appending goes ahead of folding.
    let bounds: AdmissionBounds
    /// The documents whose ids take no writes any more.
    let erased: @Sendable () -> ErasedDocuments?
    /// The actor that the replicator itself writes as, see `Admission+States`.
    let writer: LeasedActor
    /// The documents of operations that were appended here and may not be folded.
    let unfolded: UnfoldedDocuments
    /// The sessions that have brought what is appended and not folded.
    private var origins = Origins()
    /// The greatest offset that was appended here.
    private var appendedThrough: Offset = 0
    /// Last term in which we verified that the log still contains our fold. Valid until the term changes.
    private var verifiedTerm: UInt64
    /// The sessions that are there.
    private var present: Set<UInt64> = []
    /// The ones among them whose uploads folding yields to.
    private var yieldedTo: Set<UInt64> = []

    /// - Parameter term: a term of the log in which it contains our fold.
    init(
        _ materializer: Materializer, to log: any OperationLog, of database: DatabaseID,
        verifiedIn term: UInt64, environment: Environment, bounds: AdmissionBounds,
        erased: @escaping @Sendable () -> ErasedDocuments?
    ) {
        self.materializer = materializer
        self.log = log
        self.database = database
        self.environment = environment
        self.bounds = bounds
        self.erased = erased
        verifiedTerm = term
        unfolded = UnfoldedDocuments(partBytes: bounds.unfoldedBytes / 4)
        writer = LeasedActor(log: log, database: database, purpose: "replicator")
    }

    /// Gives its lease back; all sessions must have left before.
    func close() async { await writer.close() }

    // MARK: Sessions

    /// A session is there, and may upload.
    func enter(_ session: UInt64) { present.insert(session) }

    /// A session has ended. An upload of it that is being appended still is.
    func leave(_ session: UInt64) {
        prioritize(session, false)
        present.remove(session)
        origins.forget(session)
    }

    /// Lets a session's uploads come before folding what nobody waits for, or ends that. Has no effect for a
    /// session that is gone.
    func prioritize(_ session: UInt64, _ isFirst: Bool) {
        if isFirst, present.contains(session) {
            if yieldedTo.insert(session).inserted { materializer.prioritizeAppends() }
        } else if yieldedTo.remove(session) != nil {
            materializer.endYield()
        }
    }

    // MARK: What a judgement rests on

    /// The log's term from here on; what was appended in an earlier one is judged by the fold alone.
    func enterTerm() -> UInt64 {
        let term = log.term
        unfolded.enter(term)
        return term
    }

    /// Nothing is appended that was judged by a fold of what the log does not have any more: ends an upload
    /// that would be. Folding goes on behind: what an earlier fold admits a later one does too (see
    /// `AdmissionCheck`).
    func verify(in term: UInt64) async throws {
        if verifiedTerm < term, try await !materializer.isHistoryOfLog() { try await materializer.advance() }
        guard await !materializer.hasLostHistory else {
            throw SyncError(.unavailable, "the documents of this database are rebuilt from its log")
        }
        verifiedTerm = max(verifiedTerm, term)
    }

    /// Takes note of an append that ends at an offset.
    func noteAppended(through offset: Offset) { appendedThrough = max(appendedThrough, offset) }

    /// True if all that was appended here is folded at an offset.
    func hasFolded(_ offset: Offset) -> Bool { offset >= appendedThrough }

    // MARK: Origins

    /// The sessions that have brought these operations, which are folded now; nil for one that came from
    /// elsewhere.
    func takeOrigins(of folded: [FoldedOperation]) -> [UInt64?] {
        folded.map { origins.take($0.stamp.actor, $0.sequence) }
    }

    /// An operation was not appended after all.
    func withdrawOrigin(of record: OperationRecord) {
        origins.withdraw(record.actor, record.sequence...record.sequence)
    }

    /// Notes what a session is about to append.
    ///
    /// Uploads are runs of one actor's sequences.
    func noteOrigins(of requests: [AppendRequest], from session: UInt64) {
        var run: (actor: ActorID, sequences: ClosedRange<SequenceNumber>)?
        for request in requests {
            let (actor, sequence) = (request.record.actor, request.record.sequence)
            if let known = run, known.actor == actor, known.sequences.upperBound.next == sequence {
                run = (actor, known.sequences.lowerBound...sequence)
            } else {
                if let run { origins.note(run.actor, run.sequences, from: session) }
                run = (actor, sequence...sequence)
            }
        }
        if let run { origins.note(run.actor, run.sequences, from: session) }
    }
}
