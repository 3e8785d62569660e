/// The bounds of this module, each with its unit and reason. What concerns logs in general stands in
/// `LogLimits`.
public enum PostgresLimits {
    /// How long connecting may take before the server counts as unreachable, in whole seconds: more than a
    /// server that recovers answers with, less than a caller waits.
    static let connectTimeoutSeconds = 5
    /// How long a service that starts waits for a server that does not answer: services and server start
    /// together.
    public static let startPatience = Duration.seconds(30)
    /// How long sent bytes may stay unacknowledged before a connection counts as dead: a server that was
    /// unplugged must not hold a writer for the system's quarter of an hour.
    static let unacknowledgedTimeout = Duration.seconds(10)
    /// How long a server may take to answer before its connection counts as lost: many times the longest
    /// statement of ours, and short of what callers wait. A server that was stopped never answers.
    public static let answerTimeout = Duration.seconds(30)
    /// The same where a server gives space back, of which there may be gigabytes: other databases' turns wait
    /// for that, so not for ever. (A process that stops does not.)
    static let upkeepTimeout = Duration.seconds(300)
    /// The same where it moves operations to another format: that takes as long as it takes.
    static let migrationTimeout = Duration.seconds(86_400)
    /// Between two looks for connections whose server does not answer.
    static let answerLooks = Duration.seconds(1)
    /// How long a connection of ours may wait for its client in the midst of a transaction that has written,
    /// in whole seconds, before who needs its locks ends it: between two steps lies no more than a moment.
    static let stalledWriterSeconds = 5
    /// Bytes of an append that its caller sends itself: a socket has room for them, whether or not the server
    /// reads, and the least that a connection begins with is some 40 KB.
    static let callerBytes = 16 << 10
    /// Bytes of an operation's columns beside its own, what it touches and its key, and some to spare.
    static let columnBytes = 160
    /// Bytes of parameters for which each connection keeps the memory; larger statements give theirs back.
    static let keptBytes = 1 << 20
    /// Connections that read; each serves one read after the other.
    static let readLanes = 4
    /// Reads that wait for a lane before further ones are refused (`LOG-0305`).
    static let waitingReads = 1_024
    /// The first pause before a lost watching connection is opened again; it doubles up to the last.
    static let firstReconnectPause = Duration.milliseconds(50)
    /// The longest pause between two attempts.
    static let lastReconnectPause = Duration.seconds(5)
    /// The longest id that is the key of its row as it is, in bytes: an index takes no more than 2,704.
    static let keyBytes = 1_024
    /// Statements that a connection keeps prepared; a server holds each with its plan in memory.
    static let preparedStatements = 512
    /// The least time between two notices of this process's appends to the others: each wakes three threads
    /// and two of the server's processes.
    static let noticeSpacing = Duration.milliseconds(5)
    /// Plain appends whose index entries may wait, in operations and what they touched together: flushing
    /// them takes some twenty milliseconds under the lock, and whoever asks for a frontier reads the rows.
    static let unflushedEntries = 32_768
    /// Actors of one database that a writer remembers, some 200 bytes each.
    static let knownActors = 65_536

    // MARK: Projections

    /// Connections on which statements read projections; each serves one statement after the other.
    static let projectionLanes = 8
    /// Documents that one transaction of a worker changes, unless one operation alone names more.
    static let batchDocuments = 2_000
    /// Collections that one transaction of a worker changes, unless one operation alone names more: each
    /// costs about four of the locks of which a server has some 6,400.
    static let batchCollections = 256
    /// Bytes of operations, and of states read for them, that one transaction of a worker holds, unless one
    /// operation alone needs more: with the bodies and the statements some five times that in memory.
    static let batchBytes = 16 << 20
    /// Documents in one statement of a worker: the server writes some while the next ones are printed.
    static let writeDocuments = 256
    /// Bytes of states and bodies in one statement of a worker.
    static let writeBytes = 8 << 20
    /// Tables made or dropped in one transaction.
    static let tablesAtOnce = 64
    /// Names tried for a view or schema whose name is taken.
    static let nameAttempts = 8
    /// Documents of a scan's first page: enough for a look at a few.
    static let firstPageDocuments = 32
    /// Documents of each further page of a scan.
    static let pageDocuments = 1_000
    /// Bytes of states in one page, and one document: what a statement holds at a time.
    static let pageBytes = 1 << 20
    /// Bytes of states that a draft holds: what it edits stays in memory until it is in the log.
    static let draftBytes = 256 << 20
    /// How often a read looks for the current generation while others are removed.
    static let snapshotAttempts = 16
    /// The latest time a stamp may bear, in milliseconds after 1970, as for a replica: a clock that follows
    /// it has room left.
    static let stampMilliseconds: UInt64 = 1 << 47
    /// Between two looks of a follower that waits for the leader: a fraction of what a batch takes.
    static let followerPause = Duration.milliseconds(4)
    /// Between two looks for what no append wakes anybody for.
    static let projectionBeat = Duration.seconds(1)
    /// How long a leader may do nothing although there is something to do, or leave a transaction open, in
    /// whole seconds: many times the longest batch.
    static let stallSeconds = 10
    /// Looks of a follower, without progress, before it asks whether the leader is stalled.
    static let stalledLooks = 3
    /// How long the worker and readers wait for a lock that somebody's SQL holds, in whole seconds.
    static let workerLockSeconds = 5
    /// Reads of the log that go into a generation that is being built before the current one has its turn.
    static let buildingReads = 8
}
