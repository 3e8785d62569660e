import CRDT
import Identity
import OperationLog
import Replica
import ServiceKit
import Sync

/// Takes what peers upload to the log.
extension DatabaseHub {
    /// Takes a session's operations to the log; returns after they are durable there. An operation that is
    /// refused leaves a record in its place (rule 20), and nothing of its actor is taken after it.
    func admit(_ uploads: [[UInt8]], from session: UInt64, _ identity: Identity) async throws -> Event {
        // Nothing is judged by a fold of what the log does not have any more. Folding goes on behind: what
        // an earlier fold admits a later one does too (see `AdmissionCheck`). But it must not fall back.
        if await notFolded().reduce(0, { $0 + $1.bytes }) > Limits.unfoldedBytes {
            try await materializer.advance()
        } else {
            try await verifyHistory()
        }
        guard await !materializer.hasLostHistory else {
            throw SyncError(.unavailable, "the documents of this database are built anew from its log")
        }
        for _ in 0..<Limits.admissionAttempts {
            if let event = try await admitAsFolded(uploads, from: session, identity) { return event }
            try await materializer.advance()
        }
        throw SyncError(.unavailable, "the documents of an upload change too fast to judge it")
    }

    /// Judges by what is folded, and appends; nil when that has changed in between. What was appended then is
    /// a duplicate in the next attempt.
    private func admitAsFolded(
        _ uploads: [[UInt8]], from session: UInt64, _ identity: Identity
    ) async throws -> Event? {
        let isBehind = await materializer.position.offset < appendedThrough
        var (verdicts, vectors) = try await judge(uploads, identity, behind: await notFolded())
        if verdicts.contains(where: { $0.dependsOnFold || (isBehind && !$0.isAdmitted) }) {
            // What it rests on may be in the log: fold up to the head and look again.
            try await materializer.advance()
            (verdicts, vectors) = try await judge(uploads, identity, behind: [])
        }
        var requests: [AppendRequest] = []
        var refusals: [Frame.Refusal] = []
        for verdict in verdicts {
            switch verdict {
            case .admitted(let request): requests.append(request)
            case .refused(let reason), .uncovered(let reason): refusals.append(reason)
            }
        }
        guard let appended = try await append(requests, vectors, from: session) else { return nil }
        let (acknowledged, offset) = (appended.acknowledged, appended.offset)
        var rejected = appended.rejected
        // One record closes the actor. What else of it was refused is told when that stands.
        var closed: Set<ActorID> = []
        for refusal in refusals {
            if closed.contains(refusal.actor) {
                rejected.append(refusal)
            } else if !rejected.contains(where: { $0.actor == refusal.actor }) {
                let (told, isRecorded) = try await record(refusal, identity)
                rejected.append(told)
                if isRecorded { closed.insert(refusal.actor) }
            }
        }
        return rejected.isEmpty
            ? .appended(acknowledged, offset: offset) : .refused(acknowledged, rejected, offset: offset)
    }

    /// What this hub has appended and not folded.
    private func notFolded() async -> [UnfoldedAppend] {
        let folded = await materializer.position.offset
        unfolded.removeAll { $0.through <= folded }
        return unfolded
    }

    private func judge(
        _ uploads: [[UInt8]], _ identity: Identity, behind unfolded: [UnfoldedAppend]
    ) async throws -> (verdicts: [AdmissionCheck.Verdict], vectors: [DocumentKey: VersionVector]) {
        let check = AdmissionCheck(
            replica: materializer.replica, grant: identity.rights,
            wallMilliseconds: environment.wallMilliseconds(), unfolded: unfolded)
        return try await materializer.executor.run {
            try check.judge(uploads, authorKey: identity.author)
        }
    }

    /// Nil when a condition did not hold any more.
    private func append(
        _ requests: [AppendRequest], _ vectors: [DocumentKey: VersionVector], from session: UInt64
    ) async throws -> (acknowledged: [Frame.Acknowledgement], rejected: [Frame.Refusal], offset: UInt64)? {
        guard !requests.isEmpty else { return ([], [], 0) }
        var last: UInt64 = 0
        var isAnyOld = false
        var isOutdated = false
        for request in requests {
            origins[OriginKey(actor: request.record.actor, sequence: request.record.sequence)] = session
        }
        let outcomes = try await log.append(requests, to: database)
        var reached: [ActorID: UInt64] = [:]
        var unverified: [ActorID: (record: OperationRecord, through: UInt64)] = [:]
        var refusals: [Frame.Refusal] = []
        for (request, outcome) in zip(requests, outcomes) {
            let record = request.record
            if case .appended = outcome {
            } else {
                origins[OriginKey(actor: record.actor, sequence: record.sequence)] = nil
            }
            guard !refusals.contains(where: { $0.actor == record.actor }) else { continue }
            switch outcome {
            case .appended(let offset):
                appendedThrough = max(appendedThrough, offset)
                last = max(last, offset)
                reached[record.actor] = record.sequence
            case .duplicate(let through) where through == record.sequence:
                isAnyOld = true
                reached[record.actor] = through
            case .duplicate(let through):
                isAnyOld = true
                unverified[record.actor] = (record, through)
            case .gap(let expected):
                refusals.append(
                    refusal(record, .sequenceGap, "the log expects sequence \(expected)"))
            case .conflict(.condition): isOutdated = true
            case .conflict(let conflict):
                refusals.append(refusal(record, .actorConflict, "\(conflict)"))
            }
        }
        if last > 0 {
            // Where something was not taken, nothing is said of documents: all of it counts as large, so that
            // the fold is waited for.
            let isWhole = refusals.isEmpty && !isOutdated
            let bytes = isWhole ? requests.reduce(0) { $0 + $1.record.bytes.count } : Limits.unfoldedBytes + 1
            unfolded.append(
                UnfoldedAppend(through: last, bytes: bytes, vectors: isWhole ? vectors : [:]))
        }
        guard !isOutdated else { return nil }
        // The log compares the content of an actor's last operation only. Where that has not come, somebody
        // else has written as this actor meanwhile, if only an earlier session of the same peer.
        for (actor, item) in unverified where reached[actor] ?? 0 < item.through {
            refusals.append(
                refusal(item.record, .actorConflict, "the log has the actor through \(item.through)"))
        }
        let acknowledgements = reached.map { Frame.Acknowledgement(actor: $0.key, sequence: $0.value) }
        return (acknowledgements, refusals, isAnyOld ? 0 : last)
    }

    /// Lets a refusal take the operation's place in the log, so that no other way leads there any more.
    /// Returns what the writer is told, and whether that is the refusal.
    private func record(
        _ refusal: Frame.Refusal, _ identity: Identity
    ) async throws -> (told: Frame.Refusal, isRecorded: Bool) {
        let known = try await log.frontier(of: [refusal.actor], in: database)[refusal.actor]
        let operation = RefusalRecord.operation(
            actor: refusal.actor, sequence: refusal.sequence, after: known?.timestamp ?? 0)
        let request = AppendRequest(operation, authorKey: identity.author)
        switch try await log.append([request], to: database).first {
        case .appended(let offset)?:
            appendedThrough = max(appendedThrough, offset)
            return (refusal, true)
        case .gap(let expected)?:
            let reason = "the log expects sequence \(expected)"
            return (self.refusal(request.record, .sequenceGap, reason), false)
        default:
            let reason = "the log has another operation in this place"
            return (self.refusal(request.record, .actorConflict, reason), false)
        }
    }

    private func refusal(
        _ record: OperationRecord, _ code: SyncErrorCode, _ message: String
    ) -> Frame.Refusal {
        Frame.Refusal(actor: record.actor, sequence: record.sequence, error: SyncError(code, message))
    }
}
