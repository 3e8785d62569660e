/// The service's limits: name with unit, value, reason.
public enum Limits {
    /// Operations of one database kept in memory for sessions that follow it live.
    public static let liveOperations = 8_192
    /// Their bytes, states before and after included; a session further behind catches up from the
    /// materialization.
    public static let liveBytes = 32 * 1_048_576
    /// About how many bytes of operations a session takes at a time.
    public static let liveBatchBytes = 524_288
    /// How many operations a session takes at a time.
    public static let liveBatchOperations = 512
    /// The longest single sleep until a token expires, in seconds.
    public static let longestExpirySleepSeconds: Int64 = 86_400
    /// Bytes of unfinished uploads that are kept for the next session of their peers.
    public static let partialBytes = 64 * 1_048_576
    /// Sessions one database may have at once in this process.
    public static let sessionsPerDatabase = 20_000
    /// The most encoded bytes a document may come to by uploads. Local writes stop at 5 MiB; concurrent
    /// values that are kept may add up beyond, but a state has to fit into one message of a session, and
    /// into one operation of the log.
    public static let documentBytes = 16 * 1_048_576 - 65_536
    /// About how many bytes of full states one operation holds; one document alone may have more.
    public static let stateOperationBytes = 8 * 1_048_576
    /// How often a replicator tries to append an operation of its own beside others that do so at the same
    /// time.
    public static let appendAttempts = 16
    /// The most documents one page names that do not match; their receiver may ask for all of them at once.
    public static let pageCandidates = 256
    /// The most documents one page of a catch-up visits, so that a snapshot is read in short transactions.
    public static let pageDocuments = 2_000
    /// About how many bytes of documents a page holds.
    public static let pageBytes = 262_144

    /// How old tombstones become before they are reaped: the thirty days of the original's server; a peer's
    /// default is seven.
    public static let tombstoneTimeToLive = Duration.seconds(30 * 86_400)
    /// Between two searches for tombstones to reap: daily, as the original.
    public static let reapingInterval = Duration.seconds(86_400)
    /// Collections that one uploaded operation may change: each new one is a table in every fold.
    static let collectionsPerOperation = 1_000
    /// How often an upload is judged that rests on tombstones which are written or reaped meanwhile.
    static let admissionAttempts = 8
    /// Bytes that are appended before the fold is waited for: so far behind is what is judged by, at most. A
    /// burst of so much is taken as fast as the log takes it; about as many again are the vectors that are
    /// kept of it.
    static let unfoldedBytes = 16 * 1_048_576
    /// About how many bytes of an upload are judged while those before are appended.
    static let admittedBytes = 262_144
    /// Documents that one reaping names: an operation of some hundred kilobytes.
    public static let reapedDocuments = 1_000
    /// Operations behind the last snapshot that make a new one worth it: fewer would write documents more
    /// often than operations.
    public static let snapshotOperations: UInt64 = 100_000
    /// Operations that stay behind a snapshot: some minutes of a busy database.
    public static let keptOperations: UInt64 = 10_000
    /// Between two looks at what is due.
    public static let housekeepingInterval = Duration.seconds(60)
    /// The least time that a lease for it lasts: many times what one step takes on a busy machine.
    static let shortestHousekeepingLease = Duration.seconds(10)
    /// How often running sessions are judged where nothing was heard: so long may a session outlive the key
    /// that signed its token.
    public static let rightsLook: Duration = .seconds(30)
}
