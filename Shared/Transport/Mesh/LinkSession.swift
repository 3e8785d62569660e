import Exchange
import Identity
import Sync

/// The conversation over one link: a session, as the mesh begins and ends it. Calls come from any thread.
protocol LinkSession: Sendable {
    /// The link may sync. A side that was dialed greets now: until then it has only listened.
    func open()
    /// Tells the other side a newer certificate of this peer, in DER.
    func renew(_ certificate: [UInt8])
    /// Ends the conversation, and tells the other side why.
    func finish(_ reason: SyncError)
}

/// The things that a conversation begins with.
struct LinkStart: Sendable {
    let id: LinkID
    /// True if this side has dialed: it greets first.
    let isDialer: Bool
    /// The kind of its pipe.
    let kind: LinkKind
    /// The identity that the other side has proven; nil on a link without TLS.
    let identity: Identity?
    let channel: any FrameChannel
    let syncGroup: UInt32
    /// Verifies a newer certificate of the other side; nil on a link without TLS.
    let verify: (@Sendable ([UInt8]) throws -> Identity)?
    /// The other side has proven this newer identity, of the same key and rights.
    let renewed: @Sendable (Identity) -> Void
    /// A newer certificate of this side, in DER, was sent to the other one.
    let told: @Sendable ([UInt8]) -> Void
    /// The other side has greeted: its key, its start, and what it says of itself.
    let greeted: @Sendable (LinkGreeting) -> Void
    /// The conversation has ended, and nothing of it is under way any more. Called once.
    let ended: @Sendable (SyncError) -> Void
}

/// The greeting of the other side.
struct LinkGreeting: Sendable, Equatable {
    var peerKey: String
    var boot: LinkTable.Boot
    /// The facts that the peer tells of itself, as they were sent.
    var record: SignedRecord?
}

/// The kind of a link's pipe.
public enum LinkKind: String, Sendable {
    /// A TCP connection.
    case tcp
    /// A WebSocket.
    case webSocket
}
