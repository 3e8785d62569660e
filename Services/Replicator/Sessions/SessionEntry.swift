import CRDT
import Exchange
import Identity
import Logging
import Machine
import ServiceKit
import Sync
import Transport
import WebSocket

/// How a peer's connection becomes a session: checked, let in at its database, begun, and ended.
extension ReplicatorPart {
    func mountSync(on mount: inout ServiceMount) {
        mount.webSocket("/_ditto/sync", subprotocols: ["mimeo.sync.1"]) { [self] request in
            guard !isDraining else { throw ReplicatorError.draining }
            let (identity, token) = try await authenticator.identity(for: request)
            guard try await log.databaseExists(identity.databaseID) else {
                throw ReplicatorError.unknownDatabase
            }
            let place = try authenticator.sessionPlace(of: identity)
            return Guest(identity: identity, token: token, place: place)
        } answerHeaders: {
            [(PeerSync.challengeHeader, $0.challenge.text)]
        } handle: { [self] channel, guest, logger in
            do {
                try await serve(channel, guest, logger)
            } catch {
                logger.debug("a session did not begin", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// A peer that has connected, and the challenge that it has to answer.
    private struct Guest: Sendable {
        let identity: Identity
        let token: String
        /// Given back at the end, or with the guest if the session never begins.
        let place: UsageMeter.Place?
        let challenge = PeerChallenge()

        /// Checks the proof of a hello; nil if the token names no key, and so asks for none.
        var isProven: (@Sendable ([UInt8]?) -> Bool)? {
            guard let peerKey = identity.peerKey else { return nil }
            return { [identity, token, challenge] proof in
                proof.map {
                    challenge.isAnswered(
                        by: $0, of: peerKey, databaseID: identity.databaseID, token: token)
                } ?? false
            }
        }
    }

    /// Begins a session and returns: an open one has no task, neither here nor at the server, that waits
    /// for its end.
    private func serve(_ channel: WebSocketChannel, _ guest: Guest, _ logger: Logger) async throws {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageBytes = Sync.Limits.frameBytes + 4_096
        configuration.keepAliveInterval = sessions.keepAlive
        let connection = try await WebSocketConnection.open(
            over: channel, role: .server, configuration: configuration)
        do {
            guard let hub = try await self.hub(of: guest.identity.databaseID, for: connection) else { return }
            guard let number = await hub.enter() else {
                return connection.finish(
                    WebSocketClose(code: 1013, reason: SyncErrorCode.unavailable.rawValue))
            }
            await begin(connection, hub, number, guest, logger)
        } catch {
            // The database cannot be opened now: its peer comes back later.
            connection.finish(WebSocketClose(code: 1011, reason: SyncErrorCode.unavailable.rawValue))
            throw error
        }
    }

    /// Opens the database, or gives up after `openingSeconds` so that the peer can try another instance.
    private func hub(
        of database: DatabaseID, for connection: WebSocketConnection
    ) async throws -> DatabaseHub? {
        let deadline = deadlines.note(sessions.clock.nowSeconds() + sessions.openingSeconds) {
            connection.finish(WebSocketClose(code: 1013, reason: SyncErrorCode.unavailable.rawValue))
        }
        do {
            let hub = try await hub(of: database)
            // A peer whose time was over was sent elsewhere, and takes no place here.
            return deadlines.forget(deadline) ? hub : nil
        } catch {
            deadlines.forget(deadline)
            throw error
        }
    }

    private func ended(_ number: UInt64, at hub: DatabaseHub) async {
        await hub.leave(number)
        if await hub.materializer.hasLostHistory { await retire(hub, of: hub.database) }
    }

    private func begin(
        _ connection: WebSocketConnection, _ hub: DatabaseHub, _ number: UInt64, _ guest: Guest,
        _ logger: Logger
    ) async {
        let identity = guest.identity
        let (expiry, greeting) = (SessionDeadline(deadlines), SessionDeadline(deadlines))
        let rights = SessionRights(identity)
        let start = ContinuousClock.now
        noteStart(of: number, identity)
        let evaluator = PooledEvaluator(pool, seats: seats(of: identity.databaseID), identity)
        let store = ServerStore(
            hub: hub, log: log, database: identity.databaseID, session: number, rights: rights,
            evaluator: evaluator,
            verify: { [self] token in try await verified(token, identity.databaseID) },
            greeted: { greeting.cancel() })
        let pump = SessionPump(store: store, logger: logger)
        greeting.begin(sessions.clock.nowSeconds() + sessions.greetingSeconds) {
            pump.deliver(.finish(SyncError(.unexpectedMessage, "no greeting came in time")))
        }
        expiry.begin(identity.expiresAtSeconds) {
            pump.deliver(.finish(SyncError(.expired, "the access token has expired")))
        }
        rights.follow { identity, access in
            expiry.set(identity.expiresAtSeconds)
            if let access { pump.deliver(.grantChanged(access)) }
        }
        let load = { @Sendable in
            SessionReport.Load(unsentBytes: pump.load.bytes, catchingUp: pump.load.catchingUp)
        }
        await hub.register(number, rights, load: load) { pump.deliver(.finish($0)) }
        let kept = await hub.partial(of: identity.peerKey)
        // Revoked since its token was looked at: from here on the watch tells.
        if let refusal = authenticator.refusal(of: identity) {
            pump.deliver(.finish(SyncError(.tokenRefused, refusal.message)))
        }
        if let distrust { pump.deliver(.finish(distrust)) }
        // One that slipped in while the others were sent away.
        if isDraining { pump.deliver(.finish(SyncError(.goingAway, "this instance stops; connect again"))) }
        let channel = MeteredChannel(connection) { [authenticator] bytes in
            authenticator.pay(
                bytes, inSessionOf: rights.identity, owingAtMost: Limits.longestPaidPause)
        }
        pump.begin(live(guest, hub, number, kept, evaluator), over: channel) { [self] reason in
            expiry.cancel()
            greeting.cancel()
            rights.unfollow()
            noteEnd(of: number, rights.identity, since: start, reason)
            guest.place?.leave()
            Task { await ended(number, at: hub) }
        }
    }

    private func live(
        _ guest: Guest, _ hub: DatabaseHub, _ number: UInt64, _ kept: PartialMessage?,
        _ evaluator: PooledEvaluator
    ) -> LiveSession {
        let identity = guest.identity
        var configuration = Session.Configuration(
            role: .server(origin: number), databaseID: identity.databaseID, peerKey: "",
            wallMilliseconds: UInt64(max(0, SystemClock.seconds())) * 1_000,
            access: ReadAccess(identity.rights), kept: kept, isProven: guest.isProven)
        configuration.sharing = hub.sharing(for: number)
        configuration.hasPresence = true
        configuration.interruption = { evaluator.interruption(of: $0) }
        let (held, part) = (ClientHold(Account(identity)), ClientHold(Account(identity)))
        configuration.holding = { held.set($0) }
        configuration.holdingPart = { part.set($0) }
        configuration.trace(
            to: logger, naming: ["database": "\(identity.databaseID)", "session": "\(number)"])
        return LiveSession(Session(configuration))
    }

    /// The places of those who read a database's documents; those of one that was closed are forgotten with
    /// the process, a few bytes each.
    private func seats(of database: DatabaseID) -> EvaluationSeats {
        seats.withLock { seats in
            if let known = seats[database] { return known }
            let made = EvaluationSeats(ServiceKit.Limits.evaluationsOfStore)
            seats[database] = made
            return made
        }
    }

    /// The identity of a newer token; nil while the keys cannot be had.
    private func verified(_ token: String, _ database: DatabaseID) async throws -> Identity? {
        do {
            return try await authenticator.identity(token: token, databaseID: database)
        } catch let error as ServiceError
            where [.issuerUnreachable, .contactLost, .restoreNotAccepted].contains(error.code)
        {
            logger.warning("a newer token cannot be checked", metadata: ["reason": "\(error)"])
            return nil
        }
    }
}
