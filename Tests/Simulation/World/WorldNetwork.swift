import CRDT
import Exchange
import Replica
import Replicator
import Sync
import Transport

/// Connections: what a transport and `SessionPump` do between a session, its store and the other side.
extension World {
    /// A peer connects to a replicator that is up, as `PeerSync` does.
    func connect(_ peer: Peer) throws {
        peer.isConnectPlanned = false
        guard peer.link == nil else { return }
        guard peer.isAwayUntil <= now || isHealing else {
            return planConnect(peer, in: peer.isAwayUntil - now)
        }
        let up = instances.filter { $0.hub != nil }
        guard !up.isEmpty else { return planConnect(peer, in: 300) }
        let instance = generator.pick(up)
        guard let hub = instance.hub else { return }
        Task { [self] in
            guard let origin = await hub.enter() else {
                return fail(Violation("a replicator takes no session"))
            }
            do {
                let kept = await hub.partial(of: peer.key)
                try connected(peer, instance, hub, origin, kept)
            } catch {
                if !peer.disk.isOff { fail(error as? Violation ?? Violation("\(error)")) }
            }
        }
    }

    func planConnect(_ peer: Peer, in milliseconds: UInt64) {
        guard !peer.isConnectPlanned else { return }
        peer.isConnectPlanned = true
        schedule(.connect(peer.number), in: milliseconds)
    }

    private func connected(
        _ peer: Peer, _ instance: Instance, _ hub: DatabaseHub, _ origin: UInt64, _ kept: PartialMessage?
    ) throws {
        guard peer.link == nil, instance.hub === hub else { return }
        nextLink += 1
        statistics.sessions += 1
        try peer.replica.discardStaged(but: Array(peer.subscriptions.keys))
        if try peer.replica.releaseWithheld() > 0 {
            // What was withheld of their collections is listed anew.
            let before = peer.stored
            peer.stored = try before.filter { try peer.replica.cursor(of: $0.key) != nil }
        }
        let number = nextLink
        func configuration(_ role: Session.Role, _ wall: UInt64) -> Session.Configuration {
            let isTight = generator.chance(70)
            return Session.Configuration(
                role: role, databaseID: SimulatedLog.database,
                peerKey: role == .peer ? peer.key : "", wallMilliseconds: wall,
                creditBytes: isTight ? 300 + generator.below(2_000) : Limits.creditBytes,
                batchBytes: isTight ? 100 + generator.below(600) : Limits.batchBytes,
                access: role == .peer ? ReadAccess(collection: { _ in false }) : peer.rights.access,
                kept: role == .peer ? peer.kept.message : kept)
        }
        let near = configuration(.peer, wall(of: peer.number))
        var far = configuration(.server(origin: origin), now + serverSkew)
        // Of two sessions one shares its queries with the others, and one evaluates by itself.
        if number.isMultiple(of: 2) { far.sharing = hub.sharing(for: origin) }
        let link = Link(
            number: number, peer: peer, instance: instance, hub: hub, origin: origin,
            serverStore: ServerStore(
                hub: hub, log: log, database: SimulatedLog.database, session: origin,
                identity: peer.identity),
            peerStore: PeerStore(
                replica: peer.replica, executor: .inline,
                report: { [unowned self] in heard($0, number) }, acknowledged: {}, kept: peer.kept),
            near: near, far: far)
        links[number] = link
        peer.link = link
        note(2, link, false) { "connects" }
        tell(.opened, link, false)
        tell(.opened, link, true)
        for key in peer.subscriptions.keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            guard let held = peer.subscriptions[key] else { continue }
            try subscribe(peer, held, link)
        }
        link.listener = peer.replica.addListener { [unowned self] commit in
            guard !link.near.isGone else { return }
            // In the order of the commits, as `Inbox` keeps it.
            func tellLater(_ event: Event) {
                link.lastCommitTold = max(link.lastCommitTold, now + delay(0, 2, slow: 0))
                schedule(.tell(link, atServer: false, event, isAnswer: false), at: link.lastCommitTold)
            }
            if let actor = commit.actor { tellLater(.ownOperationAdded(actor)) }
            if !commit.wanted.isEmpty { tellLater(.wanted(commit.wanted)) }
        }
    }

    func subscribe(_ peer: Peer, _ held: LiveSubscription, _ link: Link) throws {
        let request = try held.request(from: peer.replica)
        try checkCursor(request, peer)
        tell(.subscribe(request), link, false)
    }

    private func heard(_ report: Report, _ number: Int) {
        switch report {
        case .writeRefused: statistics.refusals += 1
        case .subscriptionRefused(let key, let error):
            guard let held = links[number]?.peer.subscriptions[key] else { return }
            let mayBeBarred =
                !profile.faults.isDisjoint(with: [.grants, .renewals])
                && held.query.collection == Collections.guarded
            if held.query.collection != Collections.secrets, !mayBeBarred {
                fail(Violation("a subscription was refused: \(error)"))
            }
        case .connected, .subscriptionIsLive, .historyForked: break
        }
    }

    // MARK: Frames

    /// Hands an event to a session, and does what it asks for.
    func tell(_ event: Event, _ link: Link, _ atServer: Bool) {
        let end = link.end(atServer: atServer)
        guard !end.isGone else { return }
        let other = link.end(atServer: !atServer)
        let actions = end.session.receive(event)
        end.session.checkInvariants()
        for action in actions {
            switch action {
            case .send(let frame): send(frame, link, toServer: !atServer, other)
            case .close(let error):
                end.reason = error
                note(3, link, atServer) { "ends: \(error)" }
                schedule(
                    .lost(link, atServer: !atServer),
                    at: max(other.lastArrival, other.blockedUntil) + delay(0, 50, slow: 500))
                leave(link, atServer)
            default:
                end.outstanding += 1
                schedule(.perform(link, atServer: atServer, action), in: delay(0, 4, slow: 150))
            }
        }
    }

    private func send(_ frame: [UInt8], _ link: Link, toServer: Bool, _ receiver: Link.End) {
        statistics.frames += 1
        attempt {
            if !toServer, let message = try link.peer.told.take(frame) { try checkSent(message, link) }
            guard toServer, let message = try link.peer.said.take(frame) else { return }
            if profile.faults.contains(.scopes) { try checkWithheld(message, link) }
        }
        guard !receiver.isGone, !link.isCut else { return }
        receiver.inbox.append(frame)
        let arrival = max(
            receiver.lastArrival, receiver.blockedUntil, now + delay(1, 30, slow: isHealing ? 50 : 2_000))
        receiver.lastArrival = arrival
        schedule(.frame(link, atServer: toServer), at: arrival)
    }

    func arrive(_ link: Link, _ atServer: Bool) throws {
        let end = link.end(atServer: atServer)
        guard !end.inbox.isEmpty, !end.isGone else { return }
        if end.blockedUntil > now, !isHealing {
            return schedule(.frame(link, atServer: atServer), at: end.blockedUntil)
        }
        let frame = end.inbox.removeFirst()
        note(4, link, atServer) { "receives \(Frame.describe(frame))" }
        trace.note(frame)
        if atServer { noteUpload(frame, link) }
        tell(.frame(frame), link, atServer)
        if profile.faults.contains(.photos) { keep(link, atServer) }
    }

    // MARK: Actions

    func perform(_ action: Action, _ link: Link, _ atServer: Bool) {
        let end = link.end(atServer: atServer)
        if atServer {
            guard link.lifetime == link.instance.lifetime else { return }
            if end.isGone {
                // Cancelled: an append may have been admitted before.
                guard case .append = action, generator.chance(50) else { return performed(nil, link, true) }
            }
            note(5, link, true) { "does \(action.name)" }
            // The token is one of the peer's rights of now.
            if case .checkToken = action {
                apply(link.peer.rights, link)
                return performed(.renewed, link, true)
            }
            noteGiving(action, link)
            let store = link.serverStore
            link.tasks.append(
                Task { [self] in
                    do {
                        performed(try await store.perform(action), link, true)
                    } catch is CancellationError {
                        performed(nil, link, true)
                    } catch {
                        performed(.failed("\(error)"), link, true)
                    }
                })
        } else {
            guard !end.isDead else { return }
            note(6, link, false) { "does \(action.name)" }
            if case .hide(_, let subscription) = action { willForget(link.peer, but: subscription) }
            if case .store(let batch) = action { mayGoBack(link.peer, batch) }
            if action.hidesSome { willForget(link.peer) }
            if case .repair = action, profile.faults.contains(.midRepairs), generator.chance(30) {
                attempt { try backUp(link.peer) }
            }
            let store = link.peerStore
            Task { [self] in
                do {
                    let answer = try await store.perform(action)
                    attempt {
                        do {
                            try done(action, answer, link.peer)
                        } catch {
                            // A power cut comes while the check reads, too.
                            if error is Violation || !link.peer.disk.isOff { throw error }
                        }
                    }
                    performed(answer, link, false)
                } catch {
                    if link.peer.disk.isOff || end.isDead { return }
                    fail(Violation("a peer's store failed in \(action.name): \(error)"))
                }
            }
        }
    }

    private func performed(_ answer: Event?, _ link: Link, _ atServer: Bool) {
        let end = link.end(atServer: atServer)
        end.outstanding -= 1
        if let answer, !end.isGone {
            schedule(
                .tell(link, atServer: atServer, answer, isAnswer: true), in: delay(0, 3, slow: 100))
        }
        if end.isGone { finish(link, atServer) }
    }

    /// What has come of a large message is there for the next session, as `SessionPump` keeps it.
    private func keep(_ link: Link, _ atServer: Bool) {
        let end = link.end(atServer: atServer)
        let partial = end.session.partial
        guard partial?.count != end.kept, !end.isDead else { return }
        end.kept = partial?.count
        if atServer {
            guard link.lifetime == link.instance.lifetime else { return }
            Task { await link.serverStore.keep(partial) }
        } else {
            link.peer.kept.message = partial
        }
    }

    // MARK: The end of a connection

    /// The network breaks a connection: of what is under way a first part still arrives, and each end
    /// learns of it when it does.
    func cut(_ link: Link) {
        note(8, link, false) { "is cut" }
        for atServer in [false, true] {
            let end = link.end(atServer: atServer)
            end.inbox = Array(end.inbox.prefix(generator.below(end.inbox.count + 1)))
            let isSlow = atServer && profile.faults.contains(.ghosts) && generator.chance(50)
            let wait = isSlow ? delay(1, 20_000, slow: 0) : delay(0, 300, slow: 0)
            schedule(.lost(link, atServer: atServer), at: max(end.lastArrival, now + wait))
        }
        link.isCut = true
    }

    func lose(_ link: Link, _ atServer: Bool) {
        let end = link.end(atServer: atServer)
        guard !end.isGone else { return }
        note(9, link, atServer) { "has lost the connection" }
        tell(.disconnected, link, atServer)
        leave(link, atServer)
        if !link.end(atServer: !atServer).isGone {
            schedule(.lost(link, atServer: !atServer), in: delay(0, 300, slow: 20_000))
        }
    }

    /// One end goes: nothing is told to its session any more.
    private func leave(_ link: Link, _ atServer: Bool) {
        let end = link.end(atServer: atServer)
        guard !end.isGone else { return }
        end.isGone = true
        end.inbox = []
        if atServer {
            for task in link.tasks { task.cancel() }
        } else {
            if let listener = link.listener { link.peer.replica.removeListener(listener) }
            link.peer.replica.correctClock(byMilliseconds: 0)
            if !end.isDead { attempt { try checkHoldings(link.peer) } }
        }
        if let reason = end.reason {
            statistics.endings[reason.code, default: 0] += 1
            attempt { try checkEnd(reason, link) }
        }
        finish(link, atServer)
    }

    /// All of one end's work is done: the peer may connect again, the replicator forgets the session.
    private func finish(_ link: Link, _ atServer: Bool) {
        let end = link.end(atServer: atServer)
        guard end.isGone, end.outstanding <= 0 else { return }
        if atServer {
            guard !link.hasLeft, let hub = link.instance.hub, link.lifetime == link.instance.lifetime else {
                return
            }
            link.hasLeft = true
            Task { await hub.leave(link.origin) }
        } else if link.peer.link === link {
            link.peer.link = nil
            planConnect(link.peer, in: isHealing ? delay(50, 500, slow: 0) : delay(250, 2_000, slow: 15_000))
        }
        if link.near.isGone, link.far.isGone { links[link.number] = nil }
    }

    /// A process ends: nothing of this end is done any more.
    func kill(_ link: Link, atServer: Bool) {
        let end = link.end(atServer: atServer)
        let other = link.end(atServer: !atServer)
        end.isDead = true
        end.outstanding = 0
        guard !end.isGone else { return finish(link, atServer) }
        end.reason = nil
        other.inbox = Array(other.inbox.prefix(generator.below(other.inbox.count + 1)))
        link.isCut = true
        schedule(
            .lost(link, atServer: !atServer), at: max(other.lastArrival, now + delay(0, 300, slow: 9_000)))
        leave(link, atServer)
    }
}
