/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// The pause before the second attempt to connect; it doubles with each failure and is jittered by half.
    public static let firstReconnectPause = Duration.milliseconds(500)
    /// The longest pause between two attempts: a returning server is found within it.
    public static let longestReconnectPause = Duration.seconds(15)
    /// A session of this length whose link then broke silently does not count as a failure: the next
    /// attempt comes after the first pause.
    public static let shortestSession = Duration.seconds(1)
    /// The most bytes of unsent frames: credit bounds data, this bounds everything else towards a side that
    /// asks and does not read. Room for the states of one read, each at the hard limit.
    public static let unsentBytes = 128 * 1_048_576
    /// Documents' changes of the live stream that a session handles on its event loop, which others share.
    static let shortChanges = 16
    /// Bytes of their states: what is encoded in some tens of microseconds.
    static let shortBytes = 65_536
    /// Bytes of a frame that a session handles on its event loop, which others share: some documents.
    static let promptBytes = 4_096
    /// Waiting bytes above which nothing large is read from the store for this side.
    public static let unsentPauseBytes = 8 * 1_048_576
    /// The pause before checking again whether the waiting bytes were sent.
    public static let unsentPause = Duration.milliseconds(10)
    /// Wanted documents loaded from the store when a session begins; later sessions load the rest.
    public static let wantedDocuments = 65_536
    /// The time in which the last frames of a session (with its close reason) must be sent.
    public static let lastFramesTimeout = Duration.seconds(2)
    /// Commits that links follow live, and their bytes; a link that is further behind catches up from the
    /// store.
    static let feedCommits = 1_024
    /// See `feedCommits`.
    static let feedBytes = 8 * 1_048_576
    /// Bytes of changes that a link is handed at a time.
    static let feedBatchBytes = 524_288
    /// Bytes of documents on a page of a catch-up of a link, documents that it visits, and names on it.
    static let linkPage = (bytes: 1_048_576, documents: 4_096, candidates: 4_096)
    /// Documents that a link is asked about at a time because they came from elsewhere.
    static let linkAsks = 1_024
    /// Bytes of a message in chunks after which what has come of it is kept for a later session.
    static let keptStepBytes = 65_536
}
