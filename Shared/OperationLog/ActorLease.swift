import CRDT

/// The right to write as one of a database's few service actors, for a time.
///
/// Services come and go; an actor of its own for each start would make every document's vector grow for ever.
/// So the log keeps, per database and purpose, a few slots with an actor each. Who takes a slot whose last
/// holder has let go or let its time run out gets the same actor under a greater epoch, and what the last
/// holder still appends under the old one is a conflict (`leaseLost`), decided under the append's lock.
public struct ActorLease: Hashable, Sendable {
    /// What the slots are for.
    public let purpose: String
    /// The slot's identity in the log.
    public let number: UInt64
    /// The actor to write as.
    public let actor: ActorID
    /// Which holder of the slot, counted from 1.
    public let epoch: UInt64

    /// A lease as a driver gave it out.
    package init(purpose: String, number: UInt64, actor: ActorID, epoch: UInt64) {
        self.purpose = purpose
        self.number = number
        self.actor = actor
        self.epoch = epoch
    }

    /// The key that leased actors are registered under; no peer has it, since a peer's is a public key.
    public static func authorKey(_ purpose: String) -> String { "leased:\(purpose)" }

    /// The key that this actor is registered under.
    public var authorKey: String { Self.authorKey(purpose) }
}
