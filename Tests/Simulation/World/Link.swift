import CRDT
import Exchange
import Replicator
import Sync
import Transport

/// One connection of a peer to a replicator: both sessions, and the frames under way.
///
/// The transport is a stream: a direction keeps its order, and loses only what comes after the point where
/// it is cut. The two ends learn of the end at times of their own.
///
/// `@unchecked Sendable`, as what it holds: a simulation has one thread.
final class Link: @unchecked Sendable {
    /// One end.
    final class End: @unchecked Sendable {
        var session: Session
        /// Frames under way to this end, in order.
        var inbox: [[UInt8]] = []
        /// When the last of them arrives: the next one does not come before.
        var lastArrival: UInt64 = 0
        /// Nothing arrives here before (a partition).
        var blockedUntil: UInt64 = 0
        /// Why the session ended.
        var reason: SyncError?
        /// Whether this end has gone: nothing is told to its session any more.
        var isGone = false
        /// Whether its process has ended: nothing of it is done any more.
        var isDead = false
        /// How many bytes of a large message are kept for the next session.
        var kept: Int?
        /// Actions that are not done yet.
        var outstanding = 0

        init(_ configuration: Session.Configuration) { session = Session(configuration) }
    }

    let number: Int
    let peer: Peer
    let instance: Instance
    /// The session's number at its replicator.
    let origin: UInt64
    let near: End
    let far: End
    let hub: DatabaseHub
    /// Another one after a change of rights.
    var serverStore: ServerStore
    /// What the server's session was told last.
    var rights: Rights
    let peerStore: PeerStore
    var listener: Int?
    /// When the peer's session hears of the last of its store's commits so far.
    var lastCommitTold: UInt64 = 0
    /// The server's work under way.
    var tasks: [Task<Void, Never>] = []
    /// Every subscription this connection has asked for.
    var asked: [LiveSubscription]
    /// The instance's lifetime in which the connection began.
    let lifetime: Int
    var hasLeft = false
    /// The network carries nothing new.
    var isCut = false

    init(
        number: Int, peer: Peer, instance: Instance, hub: DatabaseHub, origin: UInt64,
        serverStore: ServerStore, peerStore: PeerStore, near: Session.Configuration,
        far: Session.Configuration
    ) {
        self.number = number
        self.peer = peer
        self.instance = instance
        self.origin = origin
        self.hub = hub
        self.serverStore = serverStore
        rights = peer.rights
        self.peerStore = peerStore
        self.near = End(near)
        self.far = End(far)
        asked = Array(peer.subscriptions.values)
        lifetime = instance.lifetime
    }

    func end(atServer: Bool) -> End { atServer ? far : near }
}
