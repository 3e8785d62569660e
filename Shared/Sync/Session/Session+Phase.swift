import CRDT

extension Session {
    /// The handshake. (`flow` says whether the session is closed.)
    enum Phase: Sendable, Equatable {
        case created
        /// A peer: the store names its actors, for the hello.
        case readingActors
        /// The other side's hello is awaited.
        case awaitingHello
        /// The other small peer has greeted: the store says what it keeps of that one's feed.
        case meeting
        /// The other side has greeted: a server reads its log's frontier, a peer's writer compares histories.
        case greeted

        /// The state's name, for logs and traps.
        var name: String {
            switch self {
            case .created: "created"
            case .readingActors: "reading own actors"
            case .awaitingHello: "awaiting the other side's hello"
            case .meeting: "meeting another small peer"
            case .greeted: "greeted"
            }
        }
    }

    /// The content of this side's hello, and the expectations of the other's.
    struct Introduction: Sendable {
        let databaseID: DatabaseID
        let peerKey: String
        let wallMilliseconds: UInt64
        let creditBytes: Int
        let proof: [UInt8]?
        let isProven: (@Sendable ([UInt8]?) -> Bool)?
        /// Nil in a session with a server.
        let link: MeshLink?
        /// True if this end knows presence.
        let hasPresence: Bool

        init(_ configuration: Configuration) {
            databaseID = configuration.databaseID
            peerKey = configuration.peerKey
            wallMilliseconds = configuration.wallMilliseconds
            creditBytes = configuration.creditBytes
            proof = configuration.proof
            isProven = configuration.isProven
            let link: MeshLink? = if case .mesh(let link) = configuration.role { link } else { nil }
            self.link = link
            hasPresence = link.map { $0.greeting.record != nil } ?? configuration.hasPresence
        }
    }
}
