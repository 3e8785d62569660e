/// The service's limits: name with unit, value, reason.
public enum Limits {
    /// Operations of one database kept in memory for sessions that follow it live.
    public static let liveOperations = 8_192
    /// Their bytes in memory, states before and after included: a second of a busy database. A session
    /// further behind catches up from the materialization, which costs about as much.
    public static let liveBytes = 8 * 1_048_576
    /// About what a change in memory takes besides its bytes: three arrays' headers and rounding, its key.
    static let liveChangeBytes = 160
    /// About how many bytes of operations a session takes at a time.
    public static let liveBatchBytes = 524_288
    /// How many operations a session takes at a time.
    public static let liveBatchOperations = 512
    /// After so many operations that were nothing for it, a session that follows the live stream is told how
    /// far the log has got; half of what the stream keeps, so that none falls out of it by waiting.
    public static let progressOperations: Int = 4_096
    /// How long it is not told at most: what it has to read again when its connection breaks stays short.
    public static let progressInterval = Duration.seconds(5)
    /// Databases that are open without a session: opened at the start because they were folded here before,
    /// the latest first, or left by their peers. An open one has some connections to its file. The others
    /// are opened when their first peer comes.
    public static let idleDatabases = 64
    /// How long a database stays open behind its last session in any case: peers reconnect.
    public static let idlePatience = Duration.seconds(600)
    /// Folds that wait to be published, each of some megabytes at most; then folding waits.
    static let unpublishedFolds = 4
    /// Sessions that one task tells of an operation, one after the other: some hundred microseconds' worth
    /// where each handles it at once.
    static let toldAtATime = 32
    /// How often queries are evaluated for one operation in the index, under its lock: some tens of
    /// milliseconds. The rest is left to the sessions that follow them.
    static let evaluationsPerOperation = 100_000
    /// Encoded frames that are kept for the other receivers: those of some moments ago.
    public static let sharedFrames = 256
    /// Their bytes.
    public static let sharedFrameBytes = 8 * 1_048_576
    /// Between two pings of a peer: most NATs and proxies forget an idle connection after 60 s or more.
    public static let keepAlive = Duration.seconds(30)
    /// How long sessions may take to say goodbye when the instance drains.
    static let drainTimeout = Duration.seconds(4)
    /// Sessions sent away at a time when the instance drains, and how long after each such slice the next
    /// one follows: so that ten thousand peers do not all knock at the next instance in the same moment.
    static let drainSlice = 100
    /// The most slices, so that all are told within two seconds.
    static let drainSlices = 100
    /// See `drainSlice`.
    static let drainPause = Duration.milliseconds(20)
    /// Databases or sessions that one admin request lists.
    static let listedRows = 1_000
    /// Operations that one admin request lists.
    static let listedOperations = 1_000
    /// Their bytes.
    static let listedBytes = 4 * 1_048_576
    /// Documents that are named of one operation in a list.
    static let listedDocuments = 100
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
    static let unfoldedBytes = 32 * 1_048_576
    /// Bytes that are appended of large uploads before folding goes on beside them: what others see of such
    /// an upload, and of what comes behind it, comes so much later; a fraction of a second.
    static let aheadBytes = 16 * 1_048_576
    /// About how many bytes of an upload are judged while those before are appended. A commit waits for the
    /// disk some milliseconds, however small it is; judging a part takes about as long.
    static let admittedBytes = 524_288
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
    /// How long a peer may take to greet, in seconds: a slow link's first frame comes sooner.
    public static let greetingSeconds: Int64 = 30
    /// How long a peer waits for a database that is being opened, in seconds: another instance may have it
    /// open, and folding a whole log takes minutes.
    public static let openingSeconds: Int64 = 20
    /// How often running sessions are judged where nothing was heard: so long may a session outlive the key
    /// that signed its token.
    public static let rightsLook: Duration = .seconds(30)
}
