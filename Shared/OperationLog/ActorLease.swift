import CRDT

/// The right to write as one of a database's few service actors, for a time.
///
/// Services come and go, and an actor of its own for each start would make every document's vector grow for
/// ever. So the log keeps, per database and purpose, a few slots with an actor each. A slot that was
/// released or has expired passes to the next holder with the same actor and a greater epoch. An append
/// that the previous holder still makes under the old epoch is a conflict (`leaseLost`), decided under the
/// append's lock.
public struct ActorLease: Hashable, Sendable {
    /// The purpose that the slots serve.
    public let purpose: String
    /// The slot's identity in the log.
    public let number: UInt64
    /// The actor to write as.
    public let actor: ActorID
    /// The number of this holder of the slot, counted from 1.
    public let epoch: UInt64

    /// A lease that a driver has granted.
    package init(purpose: String, number: UInt64, actor: ActorID, epoch: UInt64) {
        self.purpose = purpose
        self.number = number
        self.actor = actor
        self.epoch = epoch
    }

    /// The key that leased actors are registered under; no peer has it, because a peer's key is a public
    /// key.
    public static func authorKey(_ purpose: String) -> String { "leased:\(purpose)" }

    /// The key that this actor is registered under.
    public var authorKey: String { Self.authorKey(purpose) }
}
