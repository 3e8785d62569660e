import CRDT
import DQL
import Exchange
import Identity
import OperationLog
import Replica
import Sync
import Synchronization
import Transport

/// The server's side of one session: performs its actions on hub, log and materialization.
package struct ServerStore: SessionStore {
    let hub: DatabaseHub
    let log: any OperationLog
    let database: DatabaseID
    /// Its number at the hub.
    package let session: UInt64
    let rights: SessionRights
    /// Evaluates the subscriptions' conditions.
    private let evaluator: any SubscriptionEvaluator
    /// The identity of a token, nil while tokens cannot be checked; throws for one that is not valid.
    private let verify: @Sendable (String) async throws -> Identity?
    private let pace = DeletionPace()
    /// Hears that the peer has greeted.
    private let greeted: @Sendable () -> Void

    var identity: Identity { rights.identity }

    /// The mark of a peer's write rights.
    private static func writeMark(_ identity: Identity) -> [UInt8] {
        let mark = identity.rights.write.mark
        return (0..<8).map { UInt8(truncatingIfNeeded: mark >> UInt64(56 - 8 * $0)) }
    }

    /// The store of one session with a number from `DatabaseHub.enter`.
    package init(
        hub: DatabaseHub, log: any OperationLog, database: DatabaseID, session: UInt64, rights: SessionRights,
        evaluator: (any SubscriptionEvaluator)? = nil,
        verify: @escaping @Sendable (String) async throws -> Identity?,
        greeted: @escaping @Sendable () -> Void = {}
    ) {
        self.evaluator = evaluator ?? UnlimitedEvaluator(executor: hub.materializer.executor)
        self.greeted = greeted
        self.hub = hub
        self.log = log
        self.database = database
        self.session = session
        self.rights = rights
        self.verify = verify
    }

    /// The store of a session with constant rights.
    package init(
        hub: DatabaseHub, log: any OperationLog, database: DatabaseID, session: UInt64, identity: Identity
    ) {
        self.init(
            hub: hub, log: log, database: database, session: session, rights: SessionRights(identity),
            verify: { _ in nil })
    }

    /// See `SessionStore`. Damage of the log has a code of its own; that of the materialization ends the
    /// session like any failure, and the next one finds it rebuilt.
    package func perform(_ action: Action) async throws -> Event? {
        do {
            return try await performed(action)
        } catch let error as OperationLogError where error.code == .corrupt {
            guard await !hub.materializer.hasLostHistory else { throw error }
            let place = error.offset.map { " at offset \($0)" } ?? ""
            return .finish(SyncError(.damaged, "the server's log is damaged\(place): \(error.code.rawValue)"))
        } catch let error as OperationLogError where error.code == .moved {
            // The writes stay pending at the peer, which comes back to whoever has its address then.
            return .finish(SyncError(.unavailable, "\(error.code.rawValue): \(error.message)"))
        }
    }

    private func performed(_ action: Action) async throws -> Event? {
        switch action {
        case .awaitOperations(let offset):
            return Self.event(await hub.operations(after: offset, for: session))
        case .readFrontier(let history):
            greeted()
            if history.hasLinks { rights.noteLinks() }
            try await hub.verifyHistory()
            let registered = try await log.frontier(of: history.heads.map(\.actor), in: database)
            // Nothing is told of an actor that belongs to another key.
            let known = registered.filter { utf8Equal($0.value.authorKey, identity.author) }
            let heads = known.map {
                ActorHead(actor: $0.key, sequence: $0.value.sequence, hash: $0.value.hash)
            }
            return .frontier(
                heads, head: await hub.materializer.position,
                isBehind: try await isBehind(history, registered),
                hashes: try await hashes(for: history, known))
        case .readPage(let subscription, let query, let access, let start, let maxBytes):
            return try await bounded(subscription) {
                guard let page = try await page(query, access, start, maxBytes) else {
                    // A list begins where the session's stream is. If that were before the reaping, the page
                    // after the list would be none again, and list after list would follow.
                    hub.tellProgress(to: session)
                    return .unknownPlace(subscription: subscription)
                }
                return .page(subscription: subscription, page)
            }
        case .compareHeld(let subscription, let query, let access, let page):
            return try await bounded(subscription) {
                .compared(subscription: subscription, try await compare(query, access, page))
            }
        case .append(let operations, let isMore, let defers):
            return try await hub.admission.admit(operations, isMore: isMore, defers: defers, from: session) {
                rights.identity
            }
        case .readStates(let keys, let held): return try await states(keys, held)
        case .compareHoldings(let candidates):
            // Rights may change while this waits.
            let identity = identity
            let lacking = try await hub.admission.lacking(candidates, identity)
            return .lacking(lacking.keys, declined: lacking.areAllTaken ? nil : Self.writeMark(identity))
        case .admitStates(let states, let isReturn):
            let identity = identity
            let position = try await hub.admission.admit(states, identity, isReturn: isReturn)
            let areAllTaken = states.allSatisfy { identity.rights.write.allows($0.key) }
            return .statesAdmitted(position, declined: areAllTaken ? nil : Self.writeMark(identity))
        case .checkToken(let token):
            // Uploads behind the check may wait long: folding need not give way to them.
            await hub.admission.prioritize(session, false)
            return await renew(token)
        case .report:
            return nil
        default:
            // A fault of the session's, but one that costs this session alone.
            throw SyncError(.unavailable, "a server's session asked for what only a peer does")
        }
    }

    /// See `SessionStore`: presence is taken where its frame is handled, so that the next frame comes after
    /// it.
    package func ready(_ action: Action) -> [Event]? {
        guard case .presence(let news) = action else { return nil }
        hub.presence.received(news, from: session, peerKey: identity.peerKey)
        return []
    }

    /// Turns the end of an evaluation that took too long into its answer.
    private func bounded(_ subscription: UInt64, _ body: () async throws -> Event) async throws -> Event {
        do {
            return try await body()
        } catch let error as DQLError where error.code == .timeout {
            return .tooCostly(subscription: subscription)
        } catch let error as DQLError where error.code == .cancelled {
            throw CancellationError()
        }
    }

    /// See `SessionStore`: changes that the hub left to the sessions to judge, a subscription whose statement
    /// is long, presence, and messages in chunks.
    package func mayTakeLong(_ events: [Event]) -> Bool {
        events.contains { event in
            switch event {
            case .operations(let operations, _):
                operations.contains { operation in
                    operation.changes.contains { $0.matches.map { !$0.undecided.isEmpty } ?? true }
                }
            case .frame(let bytes): Session.isLong(frame: bytes)
            default: false
            }
        }
    }

    /// See `SessionStore`.
    package func handle<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await evaluator.handle(body)
    }

    /// See `SessionStore`: an idle session waits here for hours without a task.
    package func follow(after offset: Offset, deliver: @escaping @Sendable (Event) -> Void) -> Bool {
        hub.follow(after: offset, for: session) { if let event = Self.event($0) { deliver(event) } }
        return true
    }

    private static func event(_ answer: LiveStream.Answer?) -> Event? {
        switch answer {
        case .operations(let operations, let through)?: .operations(operations, through: through)
        case .lagging(let head)?: .lagging(head)
        case nil: nil
        }
    }

    /// See `SessionStore`.
    package func keep(_ partial: PartialMessage?) async {
        await hub.keep(partial, of: identity.peerKey, by: session)
    }

    /// Goes on under a newer token. While tokens cannot be checked the earlier one counts, to its end.
    private func renew(_ token: String) async -> Event {
        do {
            if let newer = try await verify(token) { try rights.replace(with: newer) }
            return .renewed
        } catch let error as SyncError {
            return .finish(error)
        } catch {
            return .finish(SyncError(.tokenRefused, "the token is not taken: \(error)"))
        }
    }

    /// Returns whether the log lacks a part that the peer has seen: it was restored to an earlier state (rule
    /// 18).
    private func isBehind(_ history: OwnHistory, _ known: [ActorID: FrontierEntry]) async throws -> Bool {
        let floor = try hub.materializer.replica.reapFloor()
        let logID = await hub.materializer.position.logID
        if let seen = history.seen {
            let here = try await log.position(at: seen.offset, in: database)
            // Behind the reap floor the log need not remember; but where it does, and has another history
            // there, it was put back. (Peers do not give back reaped documents: the frontier covers them.)
            let isForgotten = here == nil && seen.offset < floor && seen.logID == logID
            if here != seen, !isForgotten { return true }
        }
        // Rights may have grown since the restore: ask again.
        if let declined = history.declined, declined != Self.writeMark(identity) { return true }
        return history.acknowledged.contains { claim in
            guard let entry = known[claim.actor] else { return claim.sequence > 0 }
            return entry.sequence < claim.sequence && utf8Equal(entry.authorKey, identity.author)
        }
    }

    /// Reads a page; nil for a place that the log does not have, or behind which something was reaped
    /// (rules 14 and 18). A materialization that is behind the place folds up to it first.
    private func page(
        _ query: SubscriptionQuery, _ access: ReadAccess, _ start: PageStart, _ maxBytes: Int
    ) async throws -> CatchUpPage? {
        guard let beginning = try await log.position(at: 0, in: database) else {
            throw OperationLogError(.corrupt, "a log has no beginning")
        }
        let offset: Offset
        let namesFrom: Offset
        switch start {
        case .cursor(let place), .resumed(let place, _):
            guard try await isKnown(place) else { return nil }
            offset = place.offset
            if case .resumed(_, let namesAfter) = start { namesFrom = namesAfter } else { namesFrom = 0 }
        case .offset(let place, let namesAfter):
            // The subscriber's own writes are in the log, but may not be folded; they are not sent again.
            if place == 0 { try await hub.materializer.advance() }
            offset = place
            namesFrom = namesAfter
        }
        let replica = hub.materializer.replica
        let bounds = CatchUpReader.Bounds(
            bytes: min(Limits.pageBytes, maxBytes), documents: Limits.pageDocuments,
            candidates: Limits.pageCandidates)
        var page = try await evaluator.evaluate { interruption in
            try replica.read { transaction in
                try CatchUpReader.page(
                    in: transaction, at: try transaction.logPosition() ?? beginning, query: query,
                    access: access, after: offset, namesAfter: namesFrom, bounds: bounds,
                    interruption: interruption)
            }
        }
        // Documents deleted after this place and reaped since left nothing to tell. Checked after the read:
        // otherwise a reaping could fall between. (A subscriber that starts empty can only miss deletions
        // after its start.)
        guard try replica.reapFloor() <= max(offset, namesFrom) else { return nil }
        if page.head == nil { page.reached = try await log.position(at: page.offset, in: database) }
        return page
    }

    /// Returns whether the changes after a place are all that a subscriber at that place has to be told.
    private func isKnown(_ place: LogPosition) async throws -> Bool {
        guard place.logID == (await hub.materializer.position).logID else { return false }
        if await hub.materializer.position.offset < place.offset { try await hub.materializer.advance() }
        guard try place.offset >= hub.materializer.replica.reapFloor() else { return false }
        return try await log.position(at: place.offset, in: database) == place
    }

    /// Reads states, with what was reaped of those that the asker holds deleted anew. A claim about a
    /// document that it may not read is passed over, since nothing of the document is told to it anyway.
    private func states(_ keys: [DocumentKey], _ shown: [DocumentVersion]) async throws -> Event {
        let replica = hub.materializer.replica
        let rights = identity.rights
        let held = shown.filter { rights.read.allows($0.key) }
        let rules = rights.write
        // Others may bring the documents that a peer with links may not write.
        let hasLinks = self.rights.hasLinks
        return try await whole {
            // The asker's own writes are in the log; a state without them would be its last word on them.
            try await hub.materializer.executor.run {
                try replica.read { transaction in
                    let found = try transaction.lost(
                        of: held, mayWrite: { hasLinks || rules.allows($0) }, tellsVoid: hasLinks)
                    let event = Event.states(
                        try keys.map { ($0, try transaction.state(of: $0)) },
                        at: try transaction.logPosition(), gone: found.told)
                    return (event, found.lost)
                }
            }
        }
    }

    /// Compares a page of what a subscriber holds with the fold of everything in the log (rule 14).
    private func compare(
        _ query: SubscriptionQuery, _ access: ReadAccess, _ page: HoldingsPage
    ) async throws -> HoldingsAnswer {
        let replica = hub.materializer.replica
        let rules = identity.rights.write
        let hasLinks = rights.hasLinks
        let raised = Mutex<Set<DocumentKey>>([])
        return try await whole {
            let concerns = raised.withLock { $0 }
            let answer = try await evaluator.evaluate { interruption in
                try replica.read { transaction in
                    try transaction.compare(
                        page, of: query, bytes: Limits.pageBytes, rows: Limits.pageDocuments,
                        mayWrite: { hasLinks || rules.allows($0) }, concerns: concerns, tellsVoid: hasLinks,
                        interruption: interruption, mayRead: { access.allows($0) })
                }
            }
            raised.withLock { $0.formUnion(answer.lost.map(\.key)) }
            return (answer, answer.lost)
        }
    }

    /// Reads an answer about documents that the asker holds. Where something of them was deleted and reaped,
    /// it is deleted anew, and the answer is read again (rule 14).
    private func whole<Answer: Sendable>(
        _ read: () async throws -> (Answer, lost: [DocumentVersion])
    ) async throws -> Answer {
        for _ in 0..<Limits.appendAttempts {
            try await hub.materializer.advance()
            let (answer, lost) = try await read()
            if lost.isEmpty { return answer }
            try await pace.wait(for: lost.count)
            try await hub.admission.deleteAnew(lost)
        }
        throw SyncError(.unavailable, "the documents of a question change too fast to answer it")
    }
}
