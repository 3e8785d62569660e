/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// The pause before the second attempt to connect; it doubles with each failure and is jittered by half.
    public static let firstReconnectPause = Duration.milliseconds(500)
    /// The longest pause between two attempts: a server that comes back is found within it.
    public static let longestReconnectPause = Duration.seconds(15)
    /// A session that lasted so long before its link broke without a word has not failed by itself: the next
    /// attempt comes after the first pause.
    public static let shortestSession = Duration.seconds(1)
    /// The most bytes of frames that may wait to leave: credit bounds data, this bounds all else towards a
    /// side that asks and does not read. Room for the states of one read, each at the hard limit.
    public static let unsentBytes = 128 * 1_048_576
    /// Documents' changes of the live stream that a session handles on its event loop, which others share.
    static let shortChanges = 16
    /// Bytes of their states: what is encoded in some tens of microseconds.
    static let shortBytes = 65_536
    /// Bytes of a frame that a session handles on its event loop, which others share: some documents.
    static let promptBytes = 4_096
    /// Above this many waiting bytes nothing large is read from the store for this side.
    public static let unsentPauseBytes = 8 * 1_048_576
    /// How long to wait before looking again whether the waiting bytes have left.
    public static let unsentPause = Duration.milliseconds(10)
    /// Wanted documents loaded from the store when a session begins; the rest has its turn with the next.
    public static let wantedDocuments = 65_536
    /// How long the last frames of a session (its close reason among them) may take to leave.
    public static let lastFramesTimeout = Duration.seconds(2)
    /// Bytes of a message in chunks after which what has come of it is kept for a later session.
    static let keptStepBytes = 65_536
}
