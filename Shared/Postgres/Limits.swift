/// The bounds of this module, each with its unit and reason. Bounds of logs in general are in `LogLimits`.
public enum PostgresLimits {
    /// Bytes of the documents in one sample of a collection.
    static let sampleBytes = 64 << 20
    /// Longest time, in seconds, of a query over a whole table for a survey: some ten million documents.
    static let surveySeconds = 30
    /// How long connecting may take before the server counts as unreachable, in whole seconds: more than a
    /// recovering server needs to answer, less than callers wait.
    static let connectTimeoutSeconds = 5
    /// How long a starting service waits for a server that does not answer: service and server may start
    /// together.
    public static let startPatience = Duration.seconds(30)
    /// How long sent bytes may stay unacknowledged before a connection counts as lost: an unplugged server
    /// must not hold a writer for the system's quarter of an hour.
    static let unacknowledgedTimeout = Duration.seconds(10)
    /// How long a server may take to answer before its connection counts as lost: many times our longest
    /// statement, and less than callers wait. A server that was stopped never answers.
    public static let answerTimeout = Duration.seconds(30)
    /// The same where a server reclaims space, possibly gigabytes: other databases wait for their turn, so
    /// not for ever. (A stopping process does not wait.)
    static let upkeepTimeout = Duration.seconds(300)
    /// The same for migrating operations to another format, which takes as long as it takes.
    static let migrationTimeout = Duration.seconds(86_400)
    /// Interval of checking for connections whose server does not answer.
    static let answerLooks = Duration.seconds(1)
    /// Looks in the time that the least patient connection gives its server, where a look per `answerLooks`
    /// would be fewer.
    static let looksPerAnswer = 10
    /// How long a connection of ours may wait for its client inside a transaction that has written before a
    /// process that needs its locks ends it: two steps normally follow within a moment.
    static let stalledWriterTimeout = Duration.seconds(5)
    /// Bytes of an append that its caller sends itself. They fit the socket's buffer even if the server
    /// does not read: the smallest initial buffer is some 40 KB.
    static let callerBytes = 16 << 10
    /// Bytes of an operation's columns without its content, touches and key, rounded up.
    static let columnBytes = 160
    /// Bytes of parameter memory that a connection keeps; larger statements release theirs.
    static let keptBytes = 1 << 20
    /// Bytes by which a server that was full is tried: many pages more than a table keeps free.
    static let triedBytes = 1 << 20
    /// Connections that read; each serves one read after the other.
    static let readLanes = 4
    /// Reads waiting for a lane before further ones are refused (`LOG-0305`).
    static let waitingReads = 1_024
    /// The first pause before a lost watching connection is opened again; it doubles up to the last.
    static let firstReconnectPause = Duration.milliseconds(50)
    /// The longest pause between two attempts.
    static let lastReconnectPause = Duration.seconds(5)
    /// The longest id used as its row's key unchanged, in bytes: an index takes no more than 2,704.
    static let keyBytes = 1_024
    /// Statements that a connection keeps prepared; a server holds each with its plan in memory.
    static let preparedStatements = 512
    /// Tables whose names a connection keeps, some 100 bytes each.
    static let knownTables = 1_024
    /// The least time between two notices of this process's appends to other processes: each wakes three
    /// threads and two of the server's processes.
    static let noticeSpacing = Duration.milliseconds(5)
    /// Plain appends whose index entries may be outstanding, counted in operations and touches together:
    /// flushing them takes some twenty milliseconds under the lock, and a query for a frontier reads their
    /// rows.
    static let unflushedEntries = 32_768
    /// Actors of one database that a writer remembers, some 200 bytes each.
    static let knownActors = 65_536

    // MARK: Projections

    /// Connections on which statements read projections, opened as they are needed; each serves one
    /// statement after the other.
    public static let projectionLanes = 16
    /// Documents that one transaction of a worker changes, unless one operation alone names more.
    static let batchDocuments = 2_000
    /// Collections that one transaction of a worker changes, unless one operation alone names more: each
    /// costs about four of a server's some 6,400 locks.
    static let batchCollections = 256
    /// Bytes of operations, and of states read for them, in one transaction of a worker, unless one
    /// operation alone needs more: with bodies and statements some five times that in memory.
    static let batchBytes = 16 << 20
    /// Documents in one statement of a worker: the server writes them while the next ones are encoded.
    static let writeDocuments = 256
    /// Bytes of states and bodies in one statement of a worker.
    static let writeBytes = 8 << 20
    /// Tables created or dropped in one transaction.
    static let tablesAtOnce = 64
    /// Names tried for a view or schema whose name is taken.
    static let nameAttempts = 8
    /// Documents of a scan's first page: enough for a statement with a small LIMIT, as of a list that people
    /// look at.
    static let firstPageDocuments = 64
    /// Documents of each further page of a scan.
    static let pageDocuments = 1_000
    /// Bytes of states in one page, plus one document: the memory of a statement.
    static let pageBytes = 1 << 20
    /// How often a read retries to find the current generation while others are removed.
    static let snapshotAttempts = 16
    /// The latest time of a stamp, in milliseconds after 1970, as for a replica: a clock that follows it
    /// has room left.
    static let stampMilliseconds: UInt64 = 1 << 47
    /// Interval at which a follower waiting for the leader checks it: a fraction of a batch's time.
    static let followerPause = Duration.milliseconds(4)
    /// Interval of checking for events that no append announces.
    static let projectionBeat = Duration.seconds(1)
    /// How long a leader may be idle although there is work, or leave a transaction open: many times the
    /// longest batch.
    public static let stallTimeout = Duration.seconds(10)
    /// Failures to read the log beside a write of this process that cost no lead. With more of them others
    /// write too, and wait for somebody who can read.
    static let readsBesideWrites = 3
    /// Checks of a follower without progress before it asks whether the leader is stalled.
    static let stalledLooks = 3
    /// How long the worker and readers wait for a lock held by somebody's SQL, in whole seconds.
    static let workerLockSeconds = 5
    /// Reads of the log for a generation that is being built before the current one has its turn.
    static let buildingReads = 8
    /// Key columns that a new table has: adding a column to a table waits for its readers, and they for it.
    static let keyColumns = 4
    /// Bytes of an index key, with all parts: a server's indexes take no more than 2,704.
    static let indexKeyBytes = 2_600
    /// Indexes of one collection: a row has 8 KB, in which each key takes up to 24 bytes.
    static let indexesOfTable = 256
    /// How long a new key column may wait for readers of its table: others wait behind it.
    static let columnLockTimeout = Duration.milliseconds(200)
    /// Documents that get their keys in one transaction while an index is built: the worker waits for the
    /// rows that it writes, some milliseconds.
    static let fillDocuments = 256
    /// Bytes of documents in such a transaction, beside the first document.
    static let fillBytes = 1 << 20
    /// How long a server may take to build an index, or to vacuum a table: it takes as long as it takes.
    static let buildTimeout = Duration.seconds(86_400)
    /// How long a failed build of an index waits for its next attempt.
    static let buildRetry = Duration.seconds(5)
    /// Documents written to a table until its statistics are taken again, unless it has many more.
    static let surveyedDocuments = 20_000
    /// The part of a table that is written until its statistics are taken again: a fifth. It also counts as
    /// old if its statistics know of less than a fifth of it.
    static let surveyedPart = 5
    /// How long a fold that is committed with its append waits for a lock: longer than a commit takes on a
    /// quick disk. The append itself has the log's own time, without it.
    static let rideLockTimeout = Duration.milliseconds(200)
    /// The least time between two looks of a leader at how much other writers have written to the tables.
    static let rideCounts = Duration.seconds(10)
    /// How often a worker looks whether the indexes are built that a new generation waits for.
    static let buildLooks = Duration.milliseconds(20)
    /// The same while something is refused that only people can mend. Writes of other processes may wait
    /// for it.
    static let refusedLooks = Duration.milliseconds(200)
    /// How long the next comparison of indexes with their definitions waits after a right was lacking: less
    /// than a beat, and not every batch asks in vain.
    static let refusedComparisons = Duration.milliseconds(500)
    /// How often a wait for an answer asks whether the answer is still wanted.
    static let wantedLooks = Duration.milliseconds(20)
    /// How long a server may take to end a cancelled statement before its connection is given up.
    static let cancelPatience = Duration.seconds(5)
    /// Rows of the first answer to a pushed statement, and of each one while documents are large.
    static let firstPushedRows = 64
    /// Steps of a statement that PostgreSQL is asked about: it prints each operand in place of its name,
    /// some twelve times, and would print those of nine steps for hours.
    static let explainedSteps = 2
    /// Answers with few rows in a row after which a pushed statement that had many is asked for few again.
    static let fewAnswers = 8
    /// Rows of each further answer.
    static let pushedRows = 512
    /// Bytes of a row from which fewer are asked for at a time.
    static let largeRowBytes = 4_096
}
