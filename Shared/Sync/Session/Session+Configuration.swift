import CRDT
import DQL
import Exchange

extension Session {
    /// The part of the protocol that this end plays.
    public enum Role: Sendable, Equatable {
        /// Subscribes and uploads.
        case peer
        /// Publishes and admits. `origin` identifies its sessions in `FoldedOperation.origin`.
        case server(origin: UInt64)
        /// A small peer that meets another one: subscribes and publishes, uploads and admits nothing.
        case mesh(MeshLink)
    }

    /// One end of a link between two small peers.
    public struct MeshLink: Sendable, Equatable {
        /// True at the end that dialed: it greets first.
        public let isDialer: Bool
        /// The introduction of this end's store.
        public let greeting: MeshGreeting

        /// An end of a link.
        public init(isDialer: Bool, greeting: MeshGreeting) {
            self.isDialer = isDialer
            self.greeting = greeting
        }
    }

    /// The identity of this end, and the rights of the other.
    public struct Configuration: Sendable {
        /// The role.
        public let role: Role
        /// The database both ends must name.
        public let databaseID: DatabaseID
        /// The public key text that the hello carries.
        public let peerKey: String
        /// Unix milliseconds when the session begins.
        public let wallMilliseconds: UInt64
        /// Bytes of data frames that this side accepts before it has stored them.
        public let creditBytes: Int
        /// Approximate size of a data frame at which the next one is begun.
        public let batchBytes: Int
        /// The other side's initial read rights (rule 24).
        public let access: ReadAccess
        /// The received part of a message in an earlier session with the same side.
        public let kept: PartialMessage?
        /// Only at a server: state shared with the other sessions of the database; nil for a single
        /// session.
        public var sharing: Sharing?
        /// Only at a server: says of a subscription how its conditions are interrupted in the event at hand,
        /// see `SubscriptionQuery.matches`; nil where nothing interrupts them.
        public var interruption: (@Sendable (_ subscription: UInt64) -> (@Sendable () -> Interruption?)?)?
        /// Only at a server: holds the memory of the session's long subscriptions, so many bytes in all;
        /// false if there is none. Nil holds nothing.
        public var holding: (@Sendable (_ bytes: Int) -> Bool)?
        /// The same for the part of a large message that has come.
        public var holdingPart: (@Sendable (_ bytes: Int) -> Bool)?
        /// Only at a peer: the proof sent with the hello.
        public let proof: [UInt8]?
        /// Only at a server: checks the proof in a hello, nil if the hello has none. A nil closure requires
        /// none.
        public let isProven: (@Sendable ([UInt8]?) -> Bool)?
        /// Only at a peer: the documents it may write now, as far as it knows; nil leaves the check to the
        /// server.
        public let writeRules: (@Sendable () -> WriteRules?)?
        /// With a server: true if this end tells, or takes, news of presence. A link has its record instead.
        public var hasPresence = false
        /// Hears of each change of state of the session and its machines, for a log; nil costs nothing.
        public var trace: (@Sendable (Transition) -> Void)?

        /// A configuration of these parts.
        public init(
            role: Role, databaseID: DatabaseID, peerKey: String, wallMilliseconds: UInt64,
            creditBytes: Int = Limits.creditBytes, batchBytes: Int = Limits.batchBytes,
            access: ReadAccess, kept: PartialMessage? = nil, proof: [UInt8]? = nil,
            isProven: (@Sendable ([UInt8]?) -> Bool)? = nil,
            writeRules: (@Sendable () -> WriteRules?)? = nil
        ) {
            self.role = role
            self.databaseID = databaseID
            self.peerKey = peerKey
            self.wallMilliseconds = wallMilliseconds
            self.creditBytes = creditBytes
            self.batchBytes = batchBytes
            self.access = access
            self.kept = kept
            self.proof = proof
            self.isProven = isProven
            self.writeRules = writeRules
        }
    }

    /// Returns whether a document may be written.
    public typealias WriteRules = @Sendable (DocumentKey) -> Bool
}
