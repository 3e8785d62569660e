import CRDT
import DQL

@testable import Sync

/// One connection of a peer to a server instance: both sessions, the frames under way, the actions asked
/// for, and the answers that have not been delivered yet.
struct Link {
    /// One end: its session, and what it asked of its store.
    struct End {
        var session: Session
        var actions: [Action] = []
        var answers: [Event] = []
        /// Frames to this end.
        var inbox: [[UInt8]] = []
        var closed: SyncError?
    }

    let peer: Int
    let instance: Int
    let number: UInt64
    var near: End
    var far: End
    /// Every subscription this connection has asked for.
    var asked: [SubscriptionQuery] = []
    /// Frames to the peer that were checked already, under earlier rights.
    var checked = 0

    /// - Parameter walls: the peer's clock and the server's.
    init(
        peer: Int, instance: Int, number: UInt64, batchBytes: Int, creditBytes: Int, access: ReadAccess,
        walls: (UInt64, UInt64)
    ) {
        self.peer = peer
        self.instance = instance
        self.number = number
        func session(_ role: Session.Role, _ wall: UInt64) -> Session {
            Session(
                Session.Configuration(
                    role: role, databaseID: "simulated", peerKey: "", wallMilliseconds: wall,
                    creditBytes: creditBytes, batchBytes: batchBytes,
                    access: access))
        }
        near = End(session: session(.peer, walls.0))
        far = End(session: session(.server(origin: number), walls.1))
    }

    var isClosed: Bool { near.closed != nil || far.closed != nil }

    /// Hands an event to the peer's session.
    mutating func tellPeer(_ event: Event) {
        Self.handle(near.session.receive(event), &near, &far)
        near.session.check()
    }

    /// Hands an event to the server's session.
    mutating func tellServer(_ event: Event) {
        Self.handle(far.session.receive(event), &far, &near)
        far.session.check()
    }

    private static func handle(_ actions: [Action], _ from: inout End, _ to: inout End) {
        for action in actions {
            switch action {
            case .send(let frame): to.inbox.append(frame)
            case .close(let error): from.closed = error
            default: from.actions.append(action)
            }
        }
    }
}

extension Session {
    /// What must hold between any two events.
    func check() {
        precondition(actions.isEmpty, "actions were left behind")
        precondition(subscriber.asked.count <= Limits.wantedDocuments, "too many documents asked for")
        let waiting = publisher.wants.reduce(0) { $0 + $1.keys.count }
        precondition(waiting <= Limits.wantedWaitingDocuments, "too many documents wait")
        precondition(subscriber.step != .storing || !subscriber.queue.isEmpty, "storing nothing")
    }
}
