import CRDT
import Exchange
import Identity
import OperationLog
import Replica
import ServiceKit
import Sync

/// Takes what peers upload to the log.
extension Admission {
    /// Takes a session's operations to the log; returns after they are durable there. An operation that is
    /// refused leaves a record in its place (rule 20), and nothing of its actor is taken after it.
    ///
    /// The session's identity and rights are asked for before each part: they may change meanwhile. A session
    /// that has ended goes no further than the part that is being appended.
    ///
    /// `isMore`: the session has the next upload already, and brings it as soon as this is answered. Then
    /// folding gives way to it in between too: as long as each brings something new, so that this comes to an
    /// end (`AdmissionBounds.aheadBytes`).
    func admit(
        _ uploads: [[UInt8]], isMore: Bool = false, defers: Bool = false, from session: UInt64,
        _ identity: @escaping @Sendable () -> Identity
    ) async throws -> Event {
        let isLarge = Self.count(of: uploads[...], bytes: bounds.partBytes) < uploads.count
        let isFirst = (isMore || isLarge) && unfolded.bytes < bounds.aheadBytes
        prioritize(session, isFirst)
        do {
            let event = try await admitNext(uploads, defers: defers, from: session, identity)
            var isNew = false
            if case .appended(_, let offset) = event { isNew = offset > 0 }
            prioritize(session, isMore && isFirst && isNew)
            return event
        } catch {
            prioritize(session, false)
            throw error
        }
    }

    private func admitNext(
        _ uploads: [[UInt8]], defers: Bool, from session: UInt64,
        _ identity: @escaping @Sendable () -> Identity
    ) async throws -> Event {
        let term = enterTerm()
        unfolded.forget(through: await materializer.position.offset)
        if let offset = unfolded.excess(over: bounds) {
            try await materializer.advance(through: offset)
            unfolded.forget(through: await materializer.position.offset)
        }
        try await verify(in: term)
        let (done, rest) = try await admitInParts(uploads, from: session, in: term, identity)
        guard !rest.isEmpty else { return .appended(done.acknowledgements, offset: done.offset) }
        for _ in 0..<Limits.admissionAttempts {
            try Task.checkCancellation()
            let now = enterTerm()
            try await verify(in: now)
            let event = try await admitAsFolded(
                rest, behind: done, defers: defers, from: session, in: now, identity())
            if let event { return event }
            try await materializer.advance()
        }
        throw SyncError(.unavailable, "the documents of an upload change too fast to judge it")
    }

    /// A part that is being appended.
    private struct PartUnderWay {
        let task: Task<[AppendOutcome], any Error>
        let judgement: AdmissionCheck.Judgement
        /// Where it begins among the uploads.
        let start: Int
    }

    /// Judges a part while the one before is appended, as long as nothing speaks against any of them: what
    /// stands, and what is left from there on.
    private func admitInParts(
        _ uploads: [[UInt8]], from session: UInt64, in term: UInt64, _ identity: @Sendable () -> Identity
    ) async throws -> (done: Appended, rest: ArraySlice<[UInt8]>) {
        var done = Appended()
        var rest = uploads[...]
        var underWay: PartUnderWay?
        var written: [UnfoldedKey: UnfoldedDocument] = [:]
        while !rest.isEmpty {
            let part = rest.prefix(Self.count(of: rest, bytes: bounds.partBytes))
            let judged = identity()
            let judgement: AdmissionCheck.Judgement
            do {
                try Task.checkCancellation()
                judgement = try await judge(part, judged, in: term, behind: unfolded, written)
            } catch {
                if let before = underWay { _ = settle(before.judgement, try await before.task.value) }
                throw error
            }
            // Rights may have changed since the judgement: then the part is judged again.
            func mayStand() -> Bool {
                !Task.isCancelled && judgement.refusals.isEmpty && judgement.lost.isEmpty
                    && identity().rights == judged.rights
            }
            var next: PartUnderWay?
            if let before = underWay {
                underWay = nil
                let outcomes = try await before.task.value
                // The outcome of the part before is noted while the log is busy with this one.
                if outcomes.allSatisfy(\.isAppended), mayStand() {
                    next = begin(judgement, from: session, start: part.startIndex)
                }
                guard let appended = settle(before.judgement, outcomes), appended.rejected.isEmpty else {
                    return (done, uploads[before.start...])
                }
                done.add(appended)
            }
            if next == nil {
                try Task.checkCancellation()
                guard mayStand() else { return (done, rest) }
                guard part.count < rest.count else {
                    // Nothing is left to be judged meanwhile, as with most uploads.
                    guard let appended = try await append(judgement, from: session),
                        appended.rejected.isEmpty
                    else { return (done, rest) }
                    done.add(appended)
                    return (done, [])
                }
                next = begin(judgement, from: session, start: part.startIndex)
            }
            rest = rest.dropFirst(part.count)
            written = judgement.written
            underWay = next
        }
        if let last = underWay {
            guard let appended = settle(last.judgement, try await last.task.value), appended.rejected.isEmpty
            else { return (done, uploads[last.start...]) }
            done.add(appended)
        }
        return (done, [])
    }

    private func begin(
        _ judgement: AdmissionCheck.Judgement, from session: UInt64, start: Int
    ) -> PartUnderWay {
        noteOrigins(of: judgement.requests, from: session)
        let task = Task { [log, database] in
            judgement.requests.isEmpty ? [] : try await log.append(judgement.requests, to: database)
        }
        return PartUnderWay(task: task, judgement: judgement, start: start)
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

    /// Judges by the fold, and appends; nil when the fold has changed in between. Operations appended by then
    /// are duplicates in the next attempt. `done` stands already.
    private func admitAsFolded(
        _ uploads: ArraySlice<[UInt8]>, behind done: Appended, defers: Bool, from session: UInt64,
        in term: UInt64, _ identity: Identity
    ) async throws -> Event? {
        let folded = await materializer.position.offset
        unfolded.forget(through: folded)
        let isBehind = !hasFolded(folded)
        var judgement = try await judge(uploads, identity, in: term, behind: unfolded)
        if judgement.dependsOnFold || (isBehind && !judgement.refusals.isEmpty) {
            // The bases may be in the log already: fold up to the head and look again.
            try await materializer.advance()
            judgement = try await judge(uploads, identity, in: term, behind: nil)
        }
        guard judgement.lost.isEmpty else {
            try await deleteAnew(judgement.lost)
            return nil
        }
        guard let appended = try await append(judgement, from: session) else { return nil }
        var rejected = appended.rejected
        // One record closes the actor. Its other refusals are told when the record stands.
        var closed: Set<ActorID> = []
        var deferrals: [Deferral] = []
        for refusal in judgement.refusals {
            if defers, judgement.mayWait.contains(refusal.actor) {
                // Nothing is recorded: it comes again, and what follows it is judged then.
                guard !deferrals.contains(where: { $0.actor == refusal.actor }),
                    !rejected.contains(where: { $0.actor == refusal.actor })
                else { continue }
                deferrals.append(
                    Deferral(
                        actor: refusal.actor, sequence: refusal.sequence, documents: refusal.documents))
            } else if closed.contains(refusal.actor) {
                rejected.append(refusal)
            } else if !rejected.contains(where: { $0.actor == refusal.actor }) {
                guard let (told, isRecorded) = try await record(refusal, identity, in: judgement.term) else {
                    return nil
                }
                rejected.append(told)
                if isRecorded { closed.insert(refusal.actor) }
            }
        }
        var all = done
        all.add(appended)
        for refusal in rejected {
            Measured.count("mimeo_sync_refused_writes_total", [("code", refusal.error.code)])
        }
        guard deferrals.isEmpty else {
            return .deferred(all.acknowledgements, deferrals, rejected, offset: all.offset)
        }
        return rejected.isEmpty
            ? .appended(all.acknowledgements, offset: all.offset)
            : .refused(all.acknowledgements, rejected, offset: all.offset)
    }

    private func judge(
        _ uploads: ArraySlice<[UInt8]>, _ identity: Identity, in term: UInt64,
        behind unfolded: UnfoldedDocuments?, _ underWay: [UnfoldedKey: UnfoldedDocument] = [:]
    ) async throws -> AdmissionCheck.Judgement {
        let check = AdmissionCheck(
            replica: materializer.replica, grant: identity.rights,
            wallMilliseconds: environment.wallMilliseconds(), unfolded: unfolded, term: term,
            erased: erased())
        return try await materializer.executor.run {
            try check.judge(uploads, authorKey: identity.author, behind: underWay)
        }
    }

    /// The outcome of an append: acknowledged and rejected operations.
    private struct Appended: Sendable {
        var reached: [ActorID: SequenceNumber] = [:]
        var rejected: [Refusal] = []
        /// The last offset; 0 where some were in the log before.
        var offset: Offset = 0
        private var isAnyOld = false

        var acknowledgements: [Acknowledgement] {
            reached.map { Acknowledgement(actor: $0.key, sequence: $0.value) }
        }

        init() {}

        init(_ reached: [ActorID: SequenceNumber], _ rejected: [Refusal], last: Offset, isAnyOld: Bool) {
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
        guard !judgement.requests.isEmpty else { return Appended() }
        noteOrigins(of: judgement.requests, from: session)
        return settle(judgement, try await log.append(judgement.requests, to: database))
    }

    /// Takes note of what has become of an append; nil when a condition did not hold any more.
    private func settle(_ judgement: AdmissionCheck.Judgement, _ outcomes: [AppendOutcome]) -> Appended? {
        let requests = judgement.requests
        guard !requests.isEmpty else { return Appended() }
        var last: Offset = 0
        var isAnyOld = false
        var isOutdated = false
        var reached = Reached()
        var unverified: [ActorID: (record: OperationRecord, through: SequenceNumber)] = [:]
        var refusals: [Refusal] = []
        for (request, outcome) in zip(requests, outcomes) {
            let record = request.record
            if case .appended(let offset) = outcome, refusals.isEmpty {
                last = max(last, offset)
                reached.note(record.actor, record.sequence)
                continue
            }
            switch outcome {
            // A duplicate may have come with an attempt before, and not be folded yet.
            case .appended, .duplicate: break
            case .gap, .conflict:
                withdrawOrigin(of: record)
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
            case .conflict(.condition), .conflict(.termOver): isOutdated = true
            case .conflict(let conflict):
                refusals.append(refusal(record, .actorConflict, "\(conflict)"))
            }
        }
        noteAppended(through: last)
        if last > 0 {
            // Where something was not taken, nothing is said of documents: all of it counts as large, so that
            // the fold is waited for.
            let isWhole = refusals.isEmpty && !isOutdated
            unfolded.note(
                isWhole ? judgement.written : [:],
                bytes: isWhole ? judgement.bytes : bounds.unfoldedBytes + 1, through: last,
                in: judgement.term)
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

    /// Lets a refusal take the operation's place in the log, so that no other way leads there any more.
    /// Returns what the writer is told, and whether that is the refusal; nil where the term is over that it
    /// was judged in.
    private func record(
        _ refusal: Refusal, _ identity: Identity, in term: UInt64
    ) async throws -> (told: Refusal, isRecorded: Bool)? {
        let known = try await log.frontier(of: [refusal.actor], in: database)[refusal.actor]
        let operation = RefusalRecord.operation(
            actor: refusal.actor, sequence: refusal.sequence, after: known?.timestamp ?? 0)
        let request = AppendRequest(operation, authorKey: identity.author, term: term)
        switch try await log.append([request], to: database).first {
        case .conflict(.termOver)?: return nil
        case .appended(let offset)?:
            noteAppended(through: offset)
            return (refusal, true)
        // Recorded before, by an attempt that was given up for another actor's: the log has compared it.
        case .duplicate(through: refusal.sequence)?: return (refusal, true)
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
    ) -> Refusal {
        Refusal(actor: record.actor, sequence: record.sequence, error: SyncError(code, message))
    }
}

/// Per actor how far its operations are in the log; mostly it is one actor.
private struct Reached {
    private var others: [ActorID: SequenceNumber] = [:]
    private var last: (actor: ActorID, sequence: SequenceNumber)?

    var all: [ActorID: SequenceNumber] {
        var all = others
        if let last { all[last.actor] = last.sequence }
        return all
    }

    mutating func note(_ actor: ActorID, _ sequence: SequenceNumber) {
        if let last, last.actor != actor { others[last.actor] = last.sequence }
        last = (actor, sequence)
    }
}

extension AppendOutcome {
    fileprivate var isAppended: Bool {
        if case .appended = self { true } else { false }
    }
}
