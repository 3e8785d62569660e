/// The service's limits: name with unit, value, reason.
public enum Limits {
    /// Operations of one database kept in memory for sessions that follow it live.
    public static let liveOperations = 8_192
    /// Their bytes in memory, states before and after included: a second of a busy database. A session
    /// further behind catches up from the materialization, which costs about as much.
    public static let liveBytes = 8 * 1_048_576
    /// Approximate bytes of operations that a session takes at a time.
    public static let liveBatchBytes = 524_288
    /// Operations that a session takes at a time.
    public static let liveBatchOperations = 512
    /// Irrelevant operations after which a session on the live stream is told the log's progress: half of
    /// the stream's buffer, so that no waiting session falls out of it.
    public static let progressOperations: Int = 4_096
    /// The longest time without such a message: it bounds the operations to read again after a lost
    /// connection.
    public static let progressInterval = Duration.seconds(5)
    /// Open databases without a session: opened at the start because they were folded here before, the
    /// latest first, or left by their peers. Each has some connections to its file. Other databases are
    /// opened when their first peer comes.
    public static let idleDatabases = 64
    /// The least time that a database stays open after its last session: peers reconnect.
    public static let idlePatience = Duration.seconds(600)
    /// Folds that wait to be published, each of some megabytes at most; then folding waits.
    static let unpublishedFolds = 4
    /// Sessions that one task tells of an operation, one after the other: some hundred microseconds' worth
    /// where each handles it at once.
    static let toldAtATime = 32
    /// How often queries are evaluated for one operation in the index, under its lock: some tens of
    /// milliseconds. The rest is left to the sessions that follow them.
    static let evaluationsPerOperation = 100_000
    /// Encoded frames kept for other receivers: those of the last moments.
    public static let sharedFrames = 256
    /// Their bytes.
    public static let sharedFrameBytes = 8 * 1_048_576
    /// Interval of pinging a peer: most NATs and proxies forget an idle connection after 60 s or more.
    public static let keepAlive = Duration.seconds(30)
    /// The longest time for which a frame beyond the bytes a second of its database waits: less than the
    /// silence after which either side gives a session up, since pings wait with it. Frames leave no debt
    /// beyond it.
    static let longestPaidPause = Duration.seconds(45)
    /// The shortest pause: a channel's timer rings ten times a second at most.
    static let leastPaidPause = Duration.milliseconds(100)
    /// Frames of a channel that wait so, about 100 bytes each: of large ones the unsent bytes bound fewer.
    static let pausedFrames = 1_024
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
    /// Bytes of unfinished uploads kept for the next session of their peers.
    public static let partialBytes = 64 * 1_048_576
    /// Concurrent sessions of one database in this process.
    public static let sessionsPerDatabase = 20_000
    /// The most encoded bytes of a document after an upload. Local writes stop at 5 MiB; concurrent values
    /// that are kept may exceed it, but a state must fit into one message of a session, and into one
    /// operation of the log.
    public static let documentBytes = 16 * 1_048_576 - 65_536
    /// Approximate bytes of full states in one operation; a single document may have more.
    public static let stateOperationBytes = 8 * 1_048_576
    /// Documents that one entry deletes anew, and that one session may have deleted anew in a second: a page
    /// of holdings.
    static let deletedAnewDocuments = 1_024
    /// How often a replicator retries to append an operation of its own while others append at the same
    /// time.
    public static let appendAttempts = 16
    /// The most unmatched documents named by one page; their receiver may request all of them at once.
    public static let pageCandidates = 256
    /// The most documents visited by one page of a catch-up, so that a snapshot is read in short
    /// transactions.
    public static let pageDocuments = 2_000
    /// Approximate bytes of documents on a page.
    public static let pageBytes = 262_144

    /// The age at which tombstones are reaped: the thirty days of the original's server; a peer's default
    /// is seven.
    public static let tombstoneTimeToLive = Duration.seconds(30 * 86_400)
    /// Interval of searching for tombstones to reap: daily, as the original.
    public static let reapingInterval = Duration.seconds(86_400)
    /// Bytes of a subscription, as a frame or as a statement, that are parsed where they arrive and evaluated
    /// with the fan-out: some microseconds.
    static let plainSubscriptionBytes = 4_096
    /// Collections that one uploaded operation may change: each new one is a table in every fold.
    static let collectionsPerOperation = 1_000
    /// How often an upload is judged that rests on tombstones which are written or reaped meanwhile.
    static let admissionAttempts = 8
    /// Bytes that are appended before the fold is waited for: so far behind is what is judged by, at most. A
    /// burst of so much is taken as fast as the log takes it; about as many again are the vectors that are
    /// kept of it.
    static let unfoldedBytes = 32 * 1_048_576
    /// Operations that are appended before the fold is waited for, so that one peer's backlog keeps nobody's
    /// statement waiting for longer than it takes to fold them: some seconds.
    static let unfoldedOperations: UInt64 = 8_192
    /// How far a large upload may run ahead of folding. Other peers see it, and later writes, that much
    /// later: a fraction of a second.
    static let aheadBytes = 16 * 1_048_576
    /// About how many bytes of an upload are judged while those before are appended. A commit waits for the
    /// disk some milliseconds, however small it is; judging a part takes about as long.
    static let admittedBytes = 524_288
    /// Time for which an erasure waits for instances that have not read its request: reading takes
    /// milliseconds, and an instance that cannot read the log cannot append to it either.
    public static let erasureSettling = Duration.seconds(5)
    /// Pause before an erasure tries again where another process keeps house.
    static let erasureRetry = Duration.seconds(2)
    /// Largest clock error of a writer whose tombstones an erasure reaps: twice what admission allows.
    static let erasureClockMilliseconds: UInt64 = 120_000
    /// Documents that one request erases: their digests are one document of the system database.
    static let erasedDocuments = 10_000
    /// Members and elements of a request to erase: an id may be an object of several.
    static let erasureValues = 16 * erasedDocuments
    /// Largest body of an admin request: so many ids of some hundred bytes.
    static let adminBodyBytes = 4 * 1_048_576
    /// Documents in one reaping: an operation of some hundred kilobytes.
    public static let reapedDocuments = 1_000
    /// Operations after the last snapshot that make a new one worthwhile: with fewer, documents would be
    /// written more often than operations.
    public static let snapshotOperations: UInt64 = 100_000
    /// Operations that stay before a snapshot: some minutes of a busy database.
    public static let keptOperations: UInt64 = 10_000
    /// Operations between two marks of a log's measure: some thousand marks for a million operations.
    static let measuredOperations: UInt64 = 256
    /// Interval of checking for due housekeeping.
    public static let housekeepingInterval = Duration.seconds(60)
    /// The least time that a lease for it lasts: many times what one step takes on a busy machine.
    static let shortestHousekeepingLease = Duration.seconds(10)
    /// The time for a peer's greeting, in seconds: the first frame of a slow link comes sooner.
    public static let greetingSeconds: Int64 = 30
    /// How long a peer waits for a database that is being opened, in seconds: another instance may have it
    /// open, and folding a whole log takes minutes.
    public static let openingSeconds: Int64 = 20
    /// Interval of checking running sessions without an event: a session may outlive the key of its token
    /// that long.
    public static let rightsLook: Duration = .seconds(30)
}
