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
        unfolded.forget(through: await materializer.position.offset)
        if unfolded.bytes > Limits.unfoldedBytes {
            try await materializer.advance()
        } else {
            try await verifyHistory()
        }
        guard await !materializer.hasLostHistory else {
            throw SyncError(.unavailable, "the documents of this database are built anew from its log")
        }
        if let event = try await admitInParts(uploads, from: session, identity) { return event }
        for _ in 0..<Limits.admissionAttempts {
            if let event = try await admitAsFolded(uploads, from: session, identity) { return event }
            try await materializer.advance()
        }
        throw SyncError(.unavailable, "the documents of an upload change too fast to judge it")
    }

    /// Judges a part while the one before is appended, as long as nothing speaks against any of them; nil
    /// where something does. What was appended then is a duplicate in the next attempt.
    private func admitInParts(
        _ uploads: [[UInt8]], from session: UInt64, _ identity: Identity
    ) async throws -> Event? {
        var all = Appended()
        var rest = uploads[...]
        var underWay: Task<Appended?, any Error>?
        var written: [UnfoldedKey: UnfoldedDocument] = [:]
        while !rest.isEmpty {
            let part = rest.prefix(Self.count(of: rest, bytes: Limits.admittedBytes))
            rest = rest.dropFirst(part.count)
            let judgement: AdmissionCheck.Judgement
            do {
                judgement = try await judge(part, identity, behind: unfolded, written)
            } catch {
                _ = try await underWay?.value
                throw error
            }
            if let task = underWay {
                underWay = nil
                guard let appended = try await task.value, appended.rejected.isEmpty else { return nil }
                all.add(appended)
            }
            guard judgement.refusals.isEmpty else { return nil }
            guard !rest.isEmpty else {
                guard let appended = try await append(judgement, from: session), appended.rejected.isEmpty
                else { return nil }
                all.add(appended)
                break
            }
            written = judgement.written
            underWay = Task { try await append(judgement, from: session) }
        }
        return .appended(all.acknowledgements, offset: all.offset)
    }

    /// How many of the first uploads have about so many bytes; one at least.
    private static func count(of uploads: ArraySlice<[UInt8]>, bytes: Int) -> Int {
        var size = 0
        for (count, upload) in uploads.enumerated() {
            guard size < bytes else { return count }
            size += upload.count
        }
        return uploads.count
    }

    /// Judges by what is folded, and appends; nil when that has changed in between. What was appended then is
    /// a duplicate in the next attempt.
    private func admitAsFolded(
        _ uploads: [[UInt8]], from session: UInt64, _ identity: Identity
    ) async throws -> Event? {
        let folded = await materializer.position.offset
        unfolded.forget(through: folded)
        let isBehind = folded < appendedThrough
        var judgement = try await judge(uploads[...], identity, behind: unfolded)
        if judgement.dependsOnFold || (isBehind && !judgement.refusals.isEmpty) {
            // What it rests on may be in the log: fold up to the head and look again.
            try await materializer.advance()
            judgement = try await judge(uploads[...], identity, behind: nil)
        }
        guard let appended = try await append(judgement, from: session) else { return nil }
        var rejected = appended.rejected
        // One record closes the actor. What else of it was refused is told when that stands.
        var closed: Set<ActorID> = []
        for refusal in judgement.refusals {
            if closed.contains(refusal.actor) {
                rejected.append(refusal)
            } else if !rejected.contains(where: { $0.actor == refusal.actor }) {
                let (told, isRecorded) = try await record(refusal, identity)
                rejected.append(told)
                if isRecorded { closed.insert(refusal.actor) }
            }
        }
        return rejected.isEmpty
            ? .appended(appended.acknowledgements, offset: appended.offset)
            : .refused(appended.acknowledgements, rejected, offset: appended.offset)
    }

    private func judge(
        _ uploads: ArraySlice<[UInt8]>, _ identity: Identity, behind unfolded: UnfoldedDocuments?,
        _ underWay: [UnfoldedKey: UnfoldedDocument] = [:]
    ) async throws -> AdmissionCheck.Judgement {
        let check = AdmissionCheck(
            replica: materializer.replica, grant: identity.rights,
            wallMilliseconds: environment.wallMilliseconds(), unfolded: unfolded)
        return try await materializer.executor.run {
            try check.judge(uploads, authorKey: identity.author, behind: underWay)
        }
    }

    /// What became of operations that were appended.
    private struct Appended: Sendable {
        var reached: [ActorID: UInt64] = [:]
        var rejected: [Frame.Refusal] = []
        /// The last offset; 0 where some were in the log before.
        var offset: UInt64 = 0
        private var isAnyOld = false

        var acknowledgements: [Frame.Acknowledgement] {
            reached.map { Frame.Acknowledgement(actor: $0.key, sequence: $0.value) }
        }

        init() {}

        init(_ reached: [ActorID: UInt64], _ rejected: [Frame.Refusal], last: UInt64, isAnyOld: Bool) {
            self.reached = reached
            self.rejected = rejected
            self.isAnyOld = isAnyOld
            offset = isAnyOld ? 0 : last
        }

        mutating func add(_ later: Appended) {
            reached.merge(later.reached, uniquingKeysWith: max)
            isAnyOld = isAnyOld || later.isAnyOld
            offset = isAnyOld ? 0 : max(offset, later.offset)
        }
    }

    /// Nil when a condition did not hold any more.
    private func append(
        _ judgement: AdmissionCheck.Judgement, from session: UInt64
    ) async throws -> Appended? {
        let requests = judgement.requests
        guard !requests.isEmpty else { return Appended() }
        noteOrigins(of: requests, session)
        let outcomes = try await log.append(requests, to: database)
        var last: UInt64 = 0
        var isAnyOld = false
        var isOutdated = false
        var reached = Reached()
        var unverified: [ActorID: (record: OperationRecord, through: UInt64)] = [:]
        var refusals: [Frame.Refusal] = []
        for (request, outcome) in zip(requests, outcomes) {
            let record = request.record
            if case .appended(let offset) = outcome, refusals.isEmpty {
                last = max(last, offset)
                reached.note(record.actor, record.sequence)
                continue
            }
            // A duplicate may still be to be folded, appended by an attempt before: whoever brings it has it.
            switch outcome {
            case .appended, .duplicate: break
            case .gap, .conflict: origins.withdraw(record.actor, record.sequence...record.sequence)
            }
            guard !refusals.contains(where: { $0.actor == record.actor }) else { continue }
            switch outcome {
            case .appended(let offset):
                last = max(last, offset)
                reached.note(record.actor, record.sequence)
            case .duplicate(let through) where through == record.sequence:
                isAnyOld = true
                reached.note(record.actor, through)
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
        appendedThrough = max(appendedThrough, last)
        if last > 0 {
            // Where something was not taken, nothing is said of documents: all of it counts as large, so that
            // the fold is waited for.
            let isWhole = refusals.isEmpty && !isOutdated
            unfolded.note(
                isWhole ? judgement.written : [:],
                bytes: isWhole ? judgement.bytes : Limits.unfoldedBytes + 1, through: last)
        }
        guard !isOutdated else { return nil }
        // The log compares the content of an actor's last operation only. Where that has not come, somebody
        // else has written as this actor meanwhile, if only an earlier session of the same peer.
        let through = reached.all
        for (actor, item) in unverified where through[actor] ?? 0 < item.through {
            refusals.append(
                refusal(item.record, .actorConflict, "the log has the actor through \(item.through)"))
        }
        return Appended(through, refusals, last: last, isAnyOld: isAnyOld)
    }

    /// Uploads are runs of one actor's sequences.
    private func noteOrigins(of requests: [AppendRequest], _ session: UInt64) {
        var run: (actor: ActorID, sequences: ClosedRange<UInt64>)?
        for request in requests {
            let (actor, sequence) = (request.record.actor, request.record.sequence)
            if let known = run, known.actor == actor, known.sequences.upperBound &+ 1 == sequence {
                run = (actor, known.sequences.lowerBound...sequence)
            } else {
                if let run { origins.note(run.actor, run.sequences, from: session) }
                run = (actor, sequence...sequence)
            }
        }
        if let run { origins.note(run.actor, run.sequences, from: session) }
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

/// Per actor how far its operations are in the log; mostly it is one actor.
private struct Reached {
    private var others: [ActorID: UInt64] = [:]
    private var last: (actor: ActorID, sequence: UInt64)?

    var all: [ActorID: UInt64] {
        var all = others
        if let last { all[last.actor] = last.sequence }
        return all
    }

    mutating func note(_ actor: ActorID, _ sequence: UInt64) {
        if let last, last.actor != actor { others[last.actor] = last.sequence }
        last = (actor, sequence)
    }
}
