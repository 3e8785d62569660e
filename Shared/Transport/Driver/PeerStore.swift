import CRDT
import DQL
import Exchange
import Machine
import Replica
import Sync
import Synchronization

/// A peer's replica as the store of a session.
package struct PeerStore: SessionStore {
    let replica: PeerReplica
    let executor: BlockingExecutor
    let report: @Sendable (Report) -> Void
    /// Called after the server has acknowledged something new.
    let acknowledged: @Sendable () -> Void
    /// Called when the server takes news of presence.
    let presenceOpens: @Sendable () -> Void
    private let kept: KeptMessage
    private let latest = LatestOperation()
    private let links = GivenLinks()

    /// A store over this replica.
    package init(
        replica: PeerReplica, executor: BlockingExecutor, report: @escaping @Sendable (Report) -> Void,
        acknowledged: @escaping @Sendable () -> Void, presenceOpens: @escaping @Sendable () -> Void = {},
        kept: KeptMessage = KeptMessage()
    ) {
        self.presenceOpens = presenceOpens
        self.kept = kept
        self.replica = replica
        self.executor = executor
        self.report = report
        self.acknowledged = acknowledged
    }

    /// Takes note of a commit: what it holds is asked for next, mostly.
    func note(_ commit: PeerReplica.Commit) { latest.note(commit) }

    /// See `SessionStore`: the operation of the latest commit.
    package func ready(_ action: Action) -> [Event]? {
        guard case .readOwnOperations(let actor, let sequence, _) = action,
            let operation = latest.take(of: actor, after: sequence)
        else { return nil }
        return [.ownOperations(actor: actor, [(sequence: operation.sequence, bytes: operation.bytes)])]
    }

    /// See `SessionStore`. If bytes from the server do not decode, the session ends with that reason, and
    /// nothing of them is stored.
    package func perform(_ action: Action) async throws -> Event? {
        do {
            return try await answer(to: action)
        } catch let error as CRDTError {
            guard let defect = action.foreignDefect else { throw error }
            return .finish(SyncError(.malformedFrame, "what the server sent does not decode: \(defect)"))
        }
    }

    private func answer(to action: Action) async throws -> Event? {
        let replica = replica
        switch action {
        case .readOwnActors: return .ownActors(try await executor.run { try replica.ownHistory() })
        case .compareHistory(let heads, let hashes):
            return .historyCompared(
                try await executor.run { try replica.compareHistory(heads, hashes: hashes) })
        case .readOwnOperations(let actor, let sequence, let maxBytes):
            let found = try await executor.run {
                try replica.ownOperations(of: actor, after: sequence, maxBytes: maxBytes)
            }
            return .ownOperations(actor: actor, found.map { (sequence: $0.sequence, bytes: $0.bytes) })
        case .store(let reception): return try await store(reception)
        case .stage(let page):
            try await executor.run { try replica.stage(page) }
            return .stored
        case .hide(let collection, let key):
            try await executor.run { try replica.hide(collection: collection, subscription: key) }
            return .stored
        case .unstage(let key):
            try await executor.run { try replica.discardStaged(for: key) }
            return .stored
        case .startOver(let key):
            try await executor.run { try replica.startOver(key) }
            return .stored
        case .findOutdated(let candidates, let key):
            return .outdated(try await executor.run { try replica.outdated(candidates, for: key) })
        case .readHeld(let request, let last, let isWhole): return try await held(request, last, isWhole)
        case .acknowledge(let actor, let sequence, let offset):
            let wanted = try await executor.run {
                try replica.acknowledge(actor, through: sequence, offset: offset)
            }
            acknowledged()
            return wanted.isEmpty ? nil : .wanted(wanted)
        case .askForAnswers(let offset):
            let wanted = try await executor.run { try replica.wantUnanswered(through: offset) }
            return wanted.isEmpty ? nil : .wanted(wanted)
        case .readVectors(let keys):
            return .vectors(try await executor.run { try replica.versions(of: keys) })
        case .settle(let keys, let distrusted):
            try await executor.run { try replica.settle(keys, distrusting: distrusted) }
            return nil
        case .report(let report):
            return try await told(report)
        case .presenceOpens:
            presenceOpens()
            return nil
        default: return try await performRepair(action)
        }
    }

    /// See `SessionStore`.
    package func keep(_ partial: PartialMessage?) async { kept.message = partial }

    private func performRepair(_ action: Action) async throws -> Event? {
        let replica = replica
        switch action {
        case .repair(let request): return try await repair(request)
        case .stageRepair(let states):
            try await executor.run { try replica.stageRepair(states) }
            return .repairStaged
        case .readHoldings(let last, ofLinks: true): return try await linkHoldings(after: last)
        case .giveBases(let deferral):
            return .basesGiven(areHeld: try await executor.run { try replica.feed.giveBases(of: deferral) })
        case .settleLinks:
            let through = links.end()
            kept.endList()
            let wanted = try await executor.run {
                try replica.feed.settleLinks(through: through, limit: Limits.wantedDocuments)
            }
            return wanted.isEmpty ? nil : .wanted(wanted)
        case .readHoldings(let last, ofLinks: false):
            let page = try await executor.run { try replica.holdings(after: last) }
            return .holdings(page.candidates, isLast: page.isLast)
        case .readStates(let keys, _):
            let list = links.list
            return .states(
                try await executor.run { try replica.openStates(of: keys, in: list) }, at: nil)
        case .noteSeen(let position, let replaces, let declined):
            try await executor.run { try replica.noteSeen(position, replaces: replaces, declined: declined) }
            return .seenNoted
        default:
            preconditionFailure("a peer's session asks for nothing else")
        }
    }

    /// Lists the documents that links have changed: all as they are now, if so much may be kept until the
    /// server has it. Else in pages, and each is given as it is when the server asks for it; so too after
    /// sessions that broke before the server had a whole list.
    private func linkHoldings(after last: DocumentKey?) async throws -> Event {
        let feed = replica.feed
        if last == nil {
            let isFirst = !links.hasBegun
            let isWhole = kept.beginList() < Limits.wholeLists
            let (through, list) = try await executor.run {
                let through = try feed.beginLinkList(isFirst: isFirst)
                guard isWhole else { return (through, LinkList?.none) }
                let list = try feed.wholeLinkList(
                    documents: Sync.Limits.heldDocuments, bytes: Sync.Limits.givenBytes)
                return (through, list)
            }
            links.begin(through, list)
            if let list { return .holdings(list.versions, isLast: true) }
        }
        // The next list has the documents that links change after this one has begun.
        let through = links.through
        let page = try await executor.run { try feed.linkHoldings(after: last, through: through) }
        return .holdings(page.candidates, isLast: page.isLast)
    }

    private func held(
        _ request: SubscriptionRequest, _ last: DocumentID?, _ isWhole: Bool
    ) async throws -> Event {
        let replica = replica
        guard case .object(let arguments) = request.arguments else {
            preconditionFailure("a subscription's arguments are an object")
        }
        return try await executor.run {
            let query = try SubscriptionQuery(
                statement: request.statement, arguments: arguments, isRestricted: false)
            let page = try replica.held(of: query, after: last, isWhole: isWhole)
            return .held(key: request.key, page.candidates, isLast: page.isLast)
        }
    }

    private func repair(_ request: RepairRequest) async throws -> Event {
        let replica = replica
        switch try await executor.run({ try replica.repair(request) }) {
        case .needs(let keys): return .repairNeeds(keys)
        case .repaired(let outcome):
            // Operations that were moved to another actor are not to be sent as they were.
            latest.forget()
            // Operations that left the store for good, unacknowledged, may end somebody's wait.
            acknowledged()
            return .repaired(outcome)
        }
    }

    private func store(_ reception: Reception) async throws -> Event {
        let replica = replica
        let outcome = try await executor.run { try replica.receive(reception) }
        if !reception.acknowledges.isEmpty { acknowledged() }
        return switch outcome {
        case .stored: .stored
        case .returning(let keys): .returning(keys)
        case .wanting(let keys): .wanting(keys)
        }
    }

    /// Passes a report on; once connected, what is wanted from earlier is asked for.
    private func told(_ report: Report) async throws -> Event? {
        self.report(report)
        guard case .connected(let difference) = report else { return nil }
        let replica = replica
        replica.correctClock(byMilliseconds: difference)
        let wanted = try await executor.run {
            // Answers that an earlier session had still to bring will not come any more.
            _ = try replica.wantUnanswered(through: .max)
            return try replica.wanted(limit: Limits.wantedDocuments)
        }
        return wanted.isEmpty ? nil : .wanted(wanted)
    }
}

/// The list under way of what links have brought. Until it ends, its states take `Sync.Limits.givenBytes` at
/// most.
private final class GivenLinks: Sendable {
    private struct State {
        /// The commit up to which it goes; nil before the first list.
        var through: UInt64?
        /// Nil between two lists, and for one that goes in pages.
        var list: LinkList?
    }

    private let state = Mutex(State())

    var hasBegun: Bool { state.withLock { $0.through != nil } }
    var through: UInt64 { state.withLock { $0.through ?? 0 } }
    var list: LinkList? { state.withLock { $0.list } }

    /// A list begins, up to a commit unless it says another one.
    func begin(_ through: UInt64, _ list: LinkList?) {
        state.withLock { $0 = State(through: list?.through ?? through, list: list) }
    }

    /// The server has it; returns the commit up to which it went.
    func end() -> UInt64 {
        state.withLock { state in
            state.list = nil
            return state.through ?? 0
        }
    }
}

/// The latest own operation, until it is asked for.
private final class LatestOperation: Sendable {
    private let state = Mutex<(actor: ActorID, operation: OwnOperation)?>(nil)

    func note(_ commit: PeerReplica.Commit) {
        guard let actor = commit.actor else { return }
        state.withLock { $0 = commit.operation.map { (actor, $0) } }
    }

    func forget() { state.withLock { $0 = nil } }

    /// Nil unless it is the only one of its actor behind a sequence.
    func take(of actor: ActorID, after sequence: SequenceNumber) -> OwnOperation? {
        state.withLock { latest in
            guard let (owner, operation) = latest, owner == actor, operation.sequence == sequence.next else {
                return nil
            }
            latest = nil
            return operation
        }
    }
}
