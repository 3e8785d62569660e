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
    }
}
