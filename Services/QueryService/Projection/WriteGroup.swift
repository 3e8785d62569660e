import CRDT
import DQL
import OperationLog
import ServiceKit
import Synchronization

/// Writes that wait together go together: they are drafted one on what the other leaves, appended in one
/// group, and folded once.
///
/// Each is answered by itself. One that fails is left out of the chain. If one conflicts, it is drafted
/// again behind those after it, which are drafted again too: their sequences would leave a gap. An answer
/// that rests on earlier drafts (nothing to change, an error) counts only once these are appended.
extension WriteLane {
    /// One write of a group.
    private struct Member {
        let job: Job
        /// Its place in the line; nil for the one who is in and does the group.
        let waiter: FairLine.Waiter?
    }

    /// Does a write, and those of others who wait.
    func perform(_ job: Job, with others: [FairLine.Waiter]) async throws -> ExecuteAnswer {
        var own: Result<ExecuteAnswer, any Error>?
        func settle(_ member: Member, _ result: Result<ExecuteAnswer, any Error>) {
            if let waiter = member.waiter { answer(waiter, result) } else { own = result }
        }
        let first = Member(job: job, waiter: nil)
        let all = [first] + others.compactMap { waiter in waiter.job.map { Member(job: $0, waiter: waiter) } }
        do {
            try await perform(all, settle)
        } catch {
            // The failure is not one write's alone; each finds out by itself if it has time left.
            for member in error.open {
                if member.job.evaluation.end != nil {
                    settle(member, .failure(error.reason))
                    continue
                }
                do {
                    try await perform([member], settle)
                } catch {
                    for member in error.open { settle(member, .failure(error.reason)) }
                }
            }
        }
        guard let own else { preconditionFailure("every write of a group is answered") }
        return try own.get()
    }

    /// The failure of a round, and the writes that are not answered yet.
    private struct RoundFailure: Error {
        let reason: any Error
        let open: [Member]
    }

    /// Does writes in rounds until each is answered: a write that lost to others is drafted again.
    private func perform(
        _ members: [Member], _ settle: (Member, Result<ExecuteAnswer, any Error>) -> Void
    ) async throws(RoundFailure) {
        var open = members
        var fruitless = 0
        var isActorNew = false
        while !open.isEmpty, fruitless < Limits.writeAttempts {
            let members = open
            let round: Round
            do {
                round = try await perform(members, after: fruitless)
            } catch {
                throw RoundFailure(reason: error, open: members)
            }
            for (place, result) in round.settled { settle(members[place], result) }
            fruitless = round.settled.isEmpty ? fruitless + 1 : 0
            open = round.open.map { members[$0] }
            // The rest of a credential goes the slow way with its one that was too slow: thirty of them would
            // each take a moment of all others' time.
            for slow in round.tooSlow.map({ members[$0].job.evaluation.purpose.credential }) {
                let rest = open.filter { utf8Equal($0.job.evaluation.purpose.credential, slow) }
                for member in rest { settle(member, .failure(TooSlow())) }
                open.removeAll { utf8Equal($0.job.evaluation.purpose.credential, slow) }
            }
            // The log knew other operations of the actor. A second actor that meets this too is no chance.
            if round.hasLostActor, isActorNew { break }
            isActorNew = isActorNew || round.hasLostActor
        }
        for member in open { settle(member, .failure(QueryError(.conflict))) }
    }

    /// The outcome of one round: the places of those that are answered, and of the others, in order.
    private struct Round {
        var settled: [(place: Int, result: Result<ExecuteAnswer, any Error>)] = []
        var open: [Int] = []
        /// True if the log knew other operations of the actor.
        var hasLostActor = false
        /// The answered ones that take too long for this lane.
        var tooSlow: [Int] {
            settled.filter { if case .failure(is TooSlow) = $0.result { true } else { false } }.map(\.place)
        }
    }

    /// Drafts, appends and folds what it can.
    /// - Parameter fruitless: the rounds before this one that answered none of the writes.
    /// - Throws: before anything was appended.
    private func perform(_ members: [Member], after fruitless: Int) async throws -> Round {
        if await store.position.offset < written { try await catchUp(to: written) }
        for member in members {
            guard let key = member.job.key else { continue }
            try await answers.update(for: key, from: written, store, member.job.evaluation)
        }
        let (lease, sequence) = try await nextStamp()
        let group = try await store.write(group(of: members.map(\.job), under: lease, sequence))
        let plan = group.plan
        await noteAppend(plan.requests, group.outcomes)
        var round = Round()
        var end = plan.end
        var offsets: [Int: Offset] = [:]
        switch group.outcomes {
        case .failure(let error):
            // Perhaps they are in the log, so none of them may be written again.
            for place in plan.places { round.settled.append((place, .failure(error))) }
            round.open = members.indices.filter { !plan.places.contains($0) }
            return round
        case .success(let outcomes):
            for (place, outcome) in zip(plan.places, outcomes) {
                guard case .appended(let offset) = outcome else {
                    end = place
                    round.hasLostActor = await recover(from: outcome, lease)
                    break
                }
                offsets[place] = offset
            }
        }
        for place in 0..<end {
            var result = await outcome(of: plan.drafts[place], members[place].job, at: offsets[place])
            if fruitless > 0, case .failure(let error as DQLError) = result, error.code == .timeout {
                // The statement was not too long: others were faster.
                result = .failure(QueryError(.conflict))
            }
            round.settled.append((place, result))
        }
        round.open = Array(members.indices.dropFirst(end))
        // One whose append failed, behind those that it would hold up again.
        if end < plan.end { round.open.append(round.open.removeFirst()) }
        return round
    }

    private func outcome(
        of draft: Result<StatementDraft, any Error>, _ job: Job, at offset: Offset?
    ) async -> Result<ExecuteAnswer, any Error> {
        do {
            let draft = try draft.get()
            if let kept = draft.kept { return .success(try await repeated(kept, job)) }
            var answer = await answer(job, draft)
            if let offset {
                answer.transactionID = offset
                if let key = job.key { answers.note(key, removed: draft.removedAnswers) }
            }
            return .success(answer)
        } catch let error as DQLError where error.code == .timeout && job.evaluation.end == nil {
            return .failure(TooSlow())
        } catch {
            return .failure(error)
        }
    }

    /// Makes ready for another round after an operation was not appended. Returns whether the log knew other
    /// operations of the actor.
    private func recover(from outcome: AppendOutcome, _ lease: ActorLease) async -> Bool {
        switch outcome {
        case .conflict(.condition(let offset)):
            written = max(written, offset)
            return false
        case .conflict(.leaseLost):
            await writer.lose(lease)
            return false
        default:
            await writer.lose(lease, retiring: true)
            return true
        }
    }

    /// The data with which a store writes these jobs, one after the other in one turn, which ends after a
    /// moment.
    private func group(
        of jobs: [Job], under lease: ActorLease, _ sequence: SequenceNumber
    ) async -> GroupWrite {
        var works: [WriteWork] = []
        for job in jobs { works.append(await work(job, as: lease.actor)) }
        let time = GroupTime(of: jobs[0].evaluation)
        let erased = self.erased()
        let drafted = works
        return GroupWrite(
            offset: written, actor: lease.actor, sequence: sequence, evaluation: jobs[0].evaluation,
            named: jobs.flatMap(\.named),
            works: drafted.map { work in
                { writer, sequence in
                    var options = work.job.options
                    options.interruption = time.begin(work.job.evaluation)
                    return try work.run(in: writer, sequence, options)
                }
            },
            goesOn: { try time.goesOn(after: $0) },
            check: { try Self.checkErased($0, erased) },
            reachHead: { [reach] in try await reach.head(for: jobs[0].evaluation) },
            plan: { results in
                let made = results.dropLast(time.isCutShort ? 1 : 0)
                let drafts = zip(drafted, made).map { work, result in
                    result.map { draft in
                        var draft = draft
                        work.complete(&draft)
                        return draft
                    }
                }
                return GroupPlan(drafts, of: jobs, under: lease)
            })
    }
}

/// The drafts of a group, and the appends that they make.
struct GroupPlan: Sendable {
    let drafts: [Result<StatementDraft, any Error>]
    private(set) var requests: [AppendRequest] = []
    /// The place of each request's draft.
    private(set) var places: [Int] = []
    /// The drafts from this place on are to be made again: the first of them has to see the ones before it
    /// folded.
    private(set) var end: Int

    /// - Parameter jobs: the jobs of these drafts, and perhaps more.
    init(_ drafts: [Result<StatementDraft, any Error>], of jobs: [WriteLane.Job], under lease: ActorLease) {
        self.drafts = drafts
        end = drafts.count
        var conditions = GroupConditions()
        for (place, draft) in drafts.enumerated() {
            guard case .success(let draft) = draft, let operation = draft.operation else { continue }
            guard
                let condition = conditions.next(of: operation, reading: jobs[place], readAt: draft.readAt)
            else {
                end = place
                break
            }
            requests.append(AppendRequest(operation, under: lease, condition: condition))
            places.append(place)
        }
    }
}

/// The conditions of a group's appends.
private struct GroupConditions {
    private var documents: Set<Touch> = []
    private var collections: Set<CollectionName> = []

    /// The condition of the next operation; nil if it has to wait until the earlier ones are folded. The
    /// documents that an earlier one writes are guarded by that one's condition, at the same offset, and the
    /// log takes this one only after it.
    mutating func next(
        of operation: CRDT.Operation, reading job: WriteLane.Job, readAt: Offset
    ) -> AppendCondition? {
        let copied = Touch.copied(by: job)
        guard collections.isDisjoint(with: copied) else { return nil }
        let written = Touch.written(by: operation)
        let reads = written.filter { !documents.contains($0) } + copied.map { Touch.collection($0) }
        documents.formUnion(written)
        collections.formUnion(operation.changes.lazy.map(\.collection))
        return AppendCondition(readAt: readAt, reads: reads)
    }
}

/// The time of a group's drafts, which have one urgent turn: of all, and of the one that runs.
private final class GroupTime: Sendable {
    private struct State {
        let begin = ContinuousClock.now
        var current = ContinuousClock.now
        /// The turn's time when the draft that runs began.
        var used = Duration.zero
        var evaluation: Evaluation?
        var isFirst = true
        var isCutShort = false
    }

    /// The one whose turn it is.
    private let leader: Evaluation
    private let state = Mutex(State())

    init(of leader: Evaluation) { self.leader = leader }

    /// True if the last draft was ended by the time that those before it took: it was not made.
    var isCutShort: Bool { state.withLock { $0.isCutShort } }

    /// Begins the next draft. Returns its check why to stop.
    func begin(_ evaluation: Evaluation) -> @Sendable () -> Interruption? {
        let (begin, used) = (ContinuousClock.now, leader.turnUsed)
        state.withLock { state in
            state.current = begin
            state.used = used
            state.evaluation = evaluation
        }
        return { [leader] in
            if let end = evaluation.end { return end == .timeout ? .timeout : .cancelled }
            let time = ContinuousClock.now - begin
            guard time >= ServiceKit.Limits.urgentTurn else { return nil }
            return Self.isOver(by: time, leader.turnUsed - used) ? .timeout : nil
        }
    }

    /// Returns whether a draft has had its time, by the clock and of the processor or a server.
    private static func isOver(by clock: Duration, _ used: Duration) -> Bool {
        used >= ServiceKit.Limits.urgentTurn || clock >= ServiceKit.Limits.urgentTurnByClock
    }

    /// Returns whether another draft may follow. Throws an error that is not one of a statement's own.
    func goesOn(after error: (any Error)?) throws -> Bool {
        let (now, used) = (ContinuousClock.now, leader.turnUsed)
        return try state.withLock { state in
            defer { state.isFirst = false }
            switch error {
            case nil, is QueryError: break
            case let error as DQLError where error.code == .timeout:
                state.isCutShort =
                    !state.isFirst && !Self.isOver(by: now - state.current, used - state.used)
                return false
            // Cancelled is the one whose turn it is, who waited for the store, and not this one.
            case let error as DQLError where error.code == .cancelled && state.evaluation?.end == nil:
                throw error
            case let error as DQLError where error.code != .unreadableDocument: break
            case let error?: throw error
            }
            return now - state.begin < Limits.groupTime
        }
    }
}
