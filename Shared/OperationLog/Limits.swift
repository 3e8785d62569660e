import CRDT

/// The bounds of this module, each with its unit and reason.
public enum LogLimits {
    /// Characters of a database id. Long enough for a UUID with a prefix, short enough for a folder name.
    public static let databaseIDCharacters = 128
    /// Bytes of one operation: the bound that its author has for one transaction.
    public static let operationBytes = CRDT.Limits.operationBytes
    /// UTF-8 bytes of an author key: a P-256 public key as base64 has 124.
    public static let authorKeyBytes = 512

    /// Touches of one operation, and reads of one condition: an operation of the greatest size has no more
    /// documents.
    public static let touches = 1 << 20

    /// Entries of a read with the standard limit: some ten milliseconds of folding, and a transaction
    /// there.
    public static let readOperations = 4_000
    /// Bytes of a read with the standard limit: a megabyte in memory per reader.
    public static let readBytes = 1 << 20

    /// Bytes of the operations that a wake-up carries. Above it, reading them again is a small part of
    /// folding them, while every lagging reader would keep them in memory.
    package static let broughtBytes = 65_536

    /// Touches in one of the two parts of a database's index: some megabytes.
    static let indexedTouches = 65_536
    /// Operations read to check a condition beyond the index: some milliseconds under the write lock.
    static let readForConditions: Int = 8_192
    /// Their bytes, at most.
    static let readForConditionsBytes = 4 << 20
    /// Touches in the indexes of all databases: some tens of megabytes.
    static let indexedTouchesInAll = 524_288

    /// Operations of a database after which the actors' rows in the SQLite log are written: a process that
    /// has not appended them reads them to know an actor's frontier, in a millisecond or two.
    static let unflushedOperations: Int = 1_024
    /// Their bytes.
    static let unflushedBytes = 1 << 20
    /// Actors of one database whose frontier a process keeps in memory: some megabytes.
    static let knownActors = 16_384
    /// Actors of all databases together: some tens of megabytes.
    static let knownActorsInAll = 131_072

    /// Operations admitted and not yet committed: some dozen full groups would be seconds of waiting.
    public static let queuedOperations = 16_384
    /// Bytes admitted and not yet committed: as much as a small server can spare.
    public static let queuedBytes = 64 << 20
    /// Append calls suspended for room: more sessions than one process serves, so more means a runaway
    /// caller.
    public static let waitingAppends = 20_000
    /// Operations in one commit: beyond it the fsync no longer matters, and latency grows.
    public static let groupOperations = 2_048
    /// Bytes in one commit, unless one call alone has more: some tens of milliseconds of disk.
    public static let groupBytes = 8 << 20

    /// How long the committing thread polls for the next call before it sleeps: as long as waking two
    /// threads takes.
    static let commitPatience = Duration.microseconds(200)
    /// How long a caller that commits by itself waits: one commit of an idle good disk, and no longer than
    /// a pool thread may be blocked.
    static let callerPatience = Duration.milliseconds(2)
    /// How long the committing thread waits for one more returning call: a little longer than waking a
    /// thread.
    static let commitGap = Duration.microseconds(50)
    /// Callers from which two groups alternate, one committing while the other's callers return: fewer
    /// callers are served sooner by one commit for all.
    static let callersInTurns = 16
    /// Pages of the write-ahead log that start a checkpoint, 16 MB: a checkpoint costs two more fsyncs.
    static let checkpointPages: Int32 = 4_000
    /// How long a writer waits for another process's write lock: many times the longest group.
    public static let busyTimeout = Duration.seconds(10)
    /// Pause between two attempts at the write lock: less than a commit takes, and a hundredth of a core
    /// while waiting.
    static let busyRetry = Duration.milliseconds(1)
    /// Interval of polling for foreign appends whose hint was lost (its process died after the commit).
    public static let pollInterval = Duration.seconds(1)
    /// The same on a system without hints: half of the 50 ms within which an append is seen elsewhere.
    static let pollIntervalWithoutHints = Duration.milliseconds(25)
    /// Delay from a commit to the ring that tells other processes: a small part of those 50 ms.
    static let ringDelay = Duration.milliseconds(1)
    /// The least time between two looks, however many hints come: keeps a busy log's watcher under 1 % of a
    /// core.
    static let watchSpacing = Duration.milliseconds(2)
    /// Pause before the first attempt to recover after a failed commit; each further one is twice as long.
    public static let recoveryPause = Duration.seconds(1)
    /// The longest such pause, in first pauses, so 10 s: an attempt costs a broken disk some writes, and a
    /// mended one is used soon.
    static let recoveryPauses = 10
    /// Read connections per log; SQLite readers are cheap, and services have few at a time.
    static let readConnections = 8

    /// Bytes of one chunk of a snapshot: several times a document of the greatest size with its id, because
    /// writes admitted at the same moment may enlarge it together.
    public static let chunkBytes = 4 * operationBytes + 65_536
    /// Entries that one step of a truncation removes: some milliseconds under the write lock.
    static let truncationStep: Int = 4_096
    /// The same for a networked server.
    package static let remoteTruncationStep: Int = 16_384
    /// Index entries of last offsets that one transaction of a truncation examines.
    package static let forgottenTouches = 8_192
    /// Pause between two attempts to empty the write-ahead log after an erasure: a reader's usual time.
    static let erasureRetry = Duration.milliseconds(20)
    /// Chain hashes of removed entries kept for cursors, eight bytes each: 32 MB.
    package static let keptHashes: UInt64 = 4 << 20
    /// Chunks of dropped snapshots that one transaction removes.
    package static let droppedChunks = 64
    /// How often a reader starts again because a newer snapshot replaced its own: a slower one would be
    /// overtaken for ever.
    static let snapshotAttempts = 8
    /// UTF-8 bytes of a lease's purpose.
    package static let purposeBytes = 64
}
