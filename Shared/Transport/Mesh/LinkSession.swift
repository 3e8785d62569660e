import CRDT
import Exchange
import Identity
import Sync
import Synchronization

/// The session over one link: tells the mesh when the other side has greeted, and waits for its decision
/// before it serves anything. `state` guards the decision; it is never held across a call.
final class LinkSession: LinkTalk {
    private enum Decision {
        case pending
        case asking(CheckedContinuation<SyncError?, Never>)
        case open
        case refused(SyncError)
    }

    private struct State {
        var decision = Decision.pending
        var peerKey: String?
        var pump: SessionPump?
    }

    /// Facts about this peer that each session begins with.
    struct Own: Sendable {
        let databaseID: DatabaseID
        let peerKey: String
        let isClockTrusted: Bool
        let wallMilliseconds: UInt64
    }

    private let start: LinkStart
    private let blobs: BlobLinks
    private let channel: BlobChannel
    private let state = Mutex(State())

    /// Begins a session of `feed`.
    init(_ start: LinkStart, of feed: MeshFeed, _ own: Own, blobs: BlobLinks = BlobLinks(nil)) {
        self.start = start
        let rights = start.identity?.rights ?? CompiledGrant.everything
        self.blobs = blobs
        channel = BlobChannel(start.channel, share: blobs.share, rights: rights.read)
        var link = MeshFeed.Link(
            databaseID: own.databaseID, peerKey: own.peerKey, isDialer: start.isDialer,
            wallMilliseconds: own.wallMilliseconds)
        link.syncGroup = UInt64(start.syncGroup)
        link.isClockTrusted = own.isClockTrusted
        link.access = ReadAccess(rights)
        link.mayWrite = { rights.write.allows($0) }
        link.writeMark = rights.write.mark
        link.meets = { greeting, key in try await self.met(greeting, key) }
        link.began = { pump in self.began(pump) }
        Task { [link, channel] in
            let reason = await feed.run(link, over: channel)
            channel.close()
            blobs.remove(start.id)
            start.ended(reason)
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
        state.withLock { $0.peerKey = peerKey }
        start.greeted(
            LinkGreeting(
                peerKey: peerKey, boot: LinkTable.Boot(count: greeting.starts, nonce: greeting.start),
                record: []))
        let refusal = await withCheckedContinuation {
            (continuation: CheckedContinuation<SyncError?, Never>) in
            let decision = state.withLock { state in
                defer { if case .pending = state.decision { state.decision = .asking(continuation) } }
                return state.decision
            }
            switch decision {
            case .pending: break
            case .open, .asking: continuation.resume(returning: nil)
            case .refused(let reason): continuation.resume(returning: reason)
            }
        }
        if let refusal { throw refusal }
    }

    func open() {
        decide(nil)
        if let peerKey = state.withLock({ $0.peerKey }) { blobs.add(start.id, peerKey, channel) }
    }

    func finish(_ reason: SyncError) { decide(reason) }

    private func decide(_ refusal: SyncError?) {
        let (before, pump) = state.withLock { state in
            defer { state.decision = refusal.map { .refused($0) } ?? .open }
            return (state.decision, state.pump)
        }
        if case .asking(let continuation) = before { return continuation.resume(returning: refusal) }
        if let refusal { pump?.deliver(.finish(refusal)) }
    }
}
