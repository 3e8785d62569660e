import CRDT
import Exchange
import Identity
import Machine
import Sync
import Synchronization

/// The session over one link: tells the mesh when the other side has greeted, and waits for its decision
/// before it serves anything. `state` guards the decision; it is never held across a call.
final class MeshSession: LinkSession {
    private enum Decision {
        case pending
        case asking(PendingAnswer<SyncError?>)
        case open
        case refused(SyncError)
    }

    private struct State {
        var decision = Decision.pending
        var pump: SessionPump?
        /// The record of the other side's greeting.
        var record: SignedRecord?
        var peerKey = ""
        /// The position up to which all is stored, and whether the other side was told so.
        var taken: (position: LogPosition, isTold: Bool)?
        var isTelling = false
        var isOver = false
        /// Newer certificates of the other side that may be verified still, and since when more were allowed.
        var renewals = Limits.renewals.burst
        var renewalsSince = ContinuousClock.now

        mutating func spendRenewal(at now: ContinuousClock.Instant) -> Bool {
            let more = Int((now - renewalsSince) / Limits.renewals.pause)
            if more > 0 {
                renewals = min(renewals + more, Limits.renewals.burst)
                renewalsSince = now
            }
            guard renewals > 0 else { return false }
            renewals -= 1
            return true
        }
    }

    /// Facts about this peer that each session begins with.
    struct Own: Sendable {
        let databaseID: DatabaseID
        let peerKey: String
        let isClockTrusted: Bool
        let wallMilliseconds: UInt64
        let presence: PresenceSync?
        /// Hears how far the other side has this store's commits, and that something of it was stored.
        let progressed: @Sendable (_ peerKey: String, _ commit: UInt64?) -> Void
    }

    private let start: LinkStart
    private let blobs: BlobLinks
    private let channel: BlobChannel
    private let own: Own
    private let presence: LinkPresence
    private let state = Mutex(State())

    /// Begins a session of `feed`.
    init(_ start: LinkStart, of feed: MeshFeed, _ own: Own, blobs: BlobLinks = BlobLinks(nil)) {
        self.start = start
        self.own = own
        presence = LinkPresence(own.presence)
        let rights = start.identity?.rights ?? CompiledGrant.everything
        self.blobs = blobs
        channel = BlobChannel(start.channel, share: blobs.share, rights: rights.read)
        var link = MeshFeed.Parties(
            databaseID: own.databaseID, peerKey: own.peerKey, isDialer: start.isDialer,
            wallMilliseconds: own.wallMilliseconds)
        link.syncGroup = UInt64(start.syncGroup)
        link.isClockTrusted = own.isClockTrusted
        link.access = ReadAccess(rights)
        link.mayWrite = { rights.write.allows($0) }
        link.writeMark = rights.write.mark
        link.meets = { greeting, key in try await self.met(greeting, key) }
        link.began = { pump in self.began(pump) }
        link.record = own.presence?.greeting()
        link.takesCertificates = start.verify != nil
        link.hears = { news in self.heard(news) }
        Task { [link, channel] in
            let reason = await feed.run(link, over: channel)
            channel.close()
            blobs.remove(start.id)
            self.over()
            start.ended(reason)
        }
    }

    private func over() {
        state.withLock { state in
            state.isOver = true
            // The pump holds this session by its store.
            state.pump = nil
        }
        presence.close()
    }

    // MARK: Beside the documents

    private func heard(_ news: MeshNews) {
        switch news {
        case .presenceOpens: openPresence()
        case .presence(let news): presence.received(news)
        case .certificate(let der): renewed(der)
        case .certificateTold(let der): start.told(der)
        case .taken(let commit): own.progressed(state.withLock { $0.peerKey }, commit)
        case .stored(let position):
            own.progressed(state.withLock { $0.peerKey }, nil)
            if let position { tellTaken(position) }
        }
    }

    /// The other side has a newer certificate: with other rights the link begins anew, so that everything is
    /// compared under them (decision 0095).
    private func renewed(_ der: [UInt8]) {
        guard let verify = start.verify, let known = start.identity else { return }
        guard state.withLock({ $0.spendRenewal(at: .now) }) else {
            return end(SyncError(.unexpectedMessage, "newer certificates come too often"))
        }
        do {
            let newer = try verify(der)
            guard newer.peerKey == known.peerKey else {
                return end(SyncError(.keyNotProven, "the newer certificate is of another key"))
            }
            guard newer.rights.read.mark == known.rights.read.mark,
                newer.rights.write.mark == known.rights.write.mark
            else { return end(SyncError(.goingAway, "the rights of one side have changed")) }
            start.renewed(newer)
        } catch let error as SyncError {
            end(error)
        } catch {
            end(SyncError(.unavailable, "the newer certificate cannot be read: \(error)"))
        }
    }

    private func end(_ reason: SyncError) { state.withLock { $0.pump }?.deliver(.finish(reason)) }

    func renew(_ certificate: [UInt8]) {
        state.withLock { $0.pump }?.deliver(.renewCertificate(certificate))
    }

    private func openPresence() {
        let (pump, record, peerKey) = state.withLock { ($0.pump, $0.record, $0.peerKey) }
        guard let pump else { return }
        presence.open(
            PresenceGossip.Neighbour(
                peerKey: peerKey, kind: start.kind == .tcp ? .network : .webSocket), record: record,
            PresenceSync.Port(
                deliver: { [weak pump] in pump?.deliver($0) },
                unsentBytes: { [weak pump] in pump?.unsentBytes ?? 0 }))
    }

    /// Tells how far this side is: at once, and then no more often than `Limits.takenPause`.
    private func tellTaken(_ position: LogPosition) {
        let pump = state.withLock { state -> SessionPump? in
            guard state.taken?.position != position else { return nil }
            state.taken = (position, !state.isTelling)
            guard !state.isTelling else { return nil }
            state.isTelling = true
            return state.pump
        }
        guard let pump else { return }
        pump.deliver(.took(position))
        Task {
            try? await Alarm.sleep(for: Limits.takenPause)
            let next = self.state.withLock { state -> LogPosition? in
                state.isTelling = false
                guard let taken = state.taken, !taken.isTold, !state.isOver else { return nil }
                state.taken = nil
                return taken.position
            }
            if let next { self.tellTaken(next) }
        }
    }

    private func began(_ pump: SessionPump) {
        let refusal = state.withLock { state -> SyncError? in
            state.pump = pump
            guard case .refused(let reason) = state.decision else { return nil }
            return reason
        }
        if let refusal { pump.deliver(.finish(refusal)) }
    }

    private func met(_ greeting: MeshGreeting, _ peerKey: String) async throws {
        state.withLock { state in
            state.record = greeting.record
            state.peerKey = peerKey
        }
        start.greeted(
            LinkGreeting(
                peerKey: peerKey, boot: LinkTable.Boot(count: greeting.starts, nonce: greeting.start),
                record: greeting.record))
        let answer = PendingAnswer<SyncError?>()
        let decision = state.withLock { state in
            defer { if case .pending = state.decision { state.decision = .asking(answer) } }
            return state.decision
        }
        switch decision {
        case .pending: if let refusal = await answer.value() { throw refusal }
        case .open, .asking: break
        case .refused(let reason): throw reason
        }
    }

    func open() {
        decide(nil)
        let peerKey = state.withLock { $0.peerKey }
        if !peerKey.isEmpty { blobs.add(start.id, peerKey, channel) }
    }

    func finish(_ reason: SyncError) { decide(reason) }

    private func decide(_ refusal: SyncError?) {
        let (before, pump) = state.withLock { state in
            defer { state.decision = refusal.map { .refused($0) } ?? .open }
            return (state.decision, state.pump)
        }
        if case .asking(let answer) = before {
            answer.give(refusal)
            return
        }
        if let refusal { pump?.deliver(.finish(refusal)) }
    }
}
