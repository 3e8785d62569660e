import CRDT

/// The bounds of this module, each with its unit and reason.
public enum LogLimits {
    /// Characters of a database id. Long enough for a UUID with a prefix, short enough for a folder name.
    public static let databaseIDCharacters = 128
    /// Bytes of one operation: what its author may make of one transaction.
    public static let operationBytes = CRDT.Limits.operationBytes
    /// UTF-8 bytes of an author key: a P-256 public key as base64 has 124.
    public static let authorKeyBytes = 512

    /// Touches of one operation, and reads of one condition: an operation of the greatest size has no more
    /// documents.
    public static let touches = 1 << 20

    /// Entries of a read without wishes: some ten milliseconds of folding, and a transaction there.
    public static let readOperations = 4_000
    /// Bytes of a read without wishes: a megabyte in memory per reader.
    public static let readBytes = 1 << 20

    /// Bytes of the operations that a wake-up brings along: of more, reading them again is a small part of
    /// what folding them takes, and every reader that is behind would hold them.
    package static let broughtBytes = 65_536

    /// Touches that a part of a log's index holds, of two parts for each database: some megabytes.
    static let indexedTouches = 65_536
    /// Operations that are read for a condition beyond what the index knows: some milliseconds under the
    /// write lock.
    static let readForConditions: Int = 8_192
    /// Their bytes, at most.
    static let readForConditionsBytes = 4 << 20
    /// Touches of all databases together: some tens of megabytes.
    static let indexedTouchesInAll = 524_288

    /// Operations of a database after which the actors' rows in the SQLite log are brought up to date:
    /// whoever has not appended them reads them to know where an actor stands, a millisecond or two.
    static let unflushedOperations: Int = 1_024
    /// Their bytes.
    static let unflushedBytes = 1 << 20
    /// Actors of one database of whom a process remembers where they stand: some megabytes.
    static let knownActors = 16_384
    /// Actors of all databases together: some tens of megabytes.
    static let knownActorsInAll = 131_072

    /// Operations admitted and not yet committed: some dozen full groups would be seconds of waiting.
    public static let queuedOperations = 16_384
    /// Bytes admitted and not yet committed: what a small server can spare.
    public static let queuedBytes = 64 << 20
    /// Append calls suspended for room: more sessions than one process serves, so beyond it somebody runs
    /// wild.
    public static let waitingAppends = 20_000
    /// Operations in one commit: beyond it the fsync is paid for long ago, and latency grows.
    public static let groupOperations = 2_048
    /// Bytes in one commit, unless one call alone has more: some tens of milliseconds of disk.
    public static let groupBytes = 8 << 20

    /// How long the committing thread looks for the next call before it sleeps: as long as waking two
    /// threads takes.
    static let commitPatience = Duration.microseconds(200)
    /// How long a caller that commits by itself waits for it: what a good disk takes that had nothing to do
    /// before, and no longer than a thread of the pool may be kept.
    static let callerPatience = Duration.milliseconds(2)
    /// How long it waits for one more call of those that came back: waking one more thread and a bit.
    static let commitGap = Duration.microseconds(50)
    /// Callers that take turns in two groups, one on its way while the other one comes back: fewer are served
    /// sooner by one commit for all of them.
    static let callersInTurns = 16
    /// Pages of the write-ahead log that start a checkpoint, 16 MB: a checkpoint costs two more fsyncs.
    static let checkpointPages: Int32 = 4_000
    /// How long a writer waits for another process's write lock: many times the longest group.
    public static let busyTimeout = Duration.seconds(10)
    /// Between two attempts at the write lock: less than a commit takes, and a hundredth of a core while
    /// waiting.
    static let busyRetry = Duration.milliseconds(1)
    /// Between two looks for foreign appends whose hint was lost (its process died after the commit).
    public static let pollInterval = Duration.seconds(1)
    /// The same where the system gives no hints: half of the 50 ms within which an append is seen elsewhere.
    static let pollIntervalWithoutHints = Duration.milliseconds(25)
    /// From a commit to the ring that tells other processes of it: a small part of those 50 ms.
    static let ringDelay = Duration.milliseconds(1)
    /// The least time between two looks however many hints come: keeps a busy log's watcher under 1 % of a
    /// core.
    static let watchSpacing = Duration.milliseconds(2)
    /// Read connections per log; SQLite readers are cheap, and services have few at a time.
    static let readConnections = 8

    /// Bytes of one chunk of a snapshot: a document of the greatest size, with its id, and some times that,
    /// since writes that are admitted at the same moment may make it larger together.
    public static let chunkBytes = 4 * operationBytes + 65_536
    /// Entries that one step of a truncation removes: some milliseconds under the write lock.
    static let truncationStep: Int = 4_096
    /// The same for a server in the network.
    package static let remoteTruncationStep: Int = 16_384
    /// Entries of the index of last offsets that one transaction of a truncation looks at.
    package static let forgottenTouches = 8_192
    /// Chain hashes of removed entries that stay for cursors, eight bytes each: 32 MB.
    package static let keptHashes: UInt64 = 4 << 20
    /// Chunks of dropped snapshots that one transaction removes.
    package static let droppedChunks = 64
    /// How often a reader begins anew with a snapshot because a newer one took its place: one that is so
    /// slow is overtaken for ever.
    static let snapshotAttempts = 8
    /// UTF-8 bytes of a lease's purpose.
    package static let purposeBytes = 64
}
