import CRDT

/// How large a local write may make a document.
public struct DocumentLimits: Sendable {
    /// Above this many encoded bytes a write earns a warning.
    public var softBytes: Int
    /// A write that makes a document exceed this many encoded bytes is refused.
    public var hardBytes: Int

    /// Limits; by default those of the language.
    public init(
        softBytes: Int = CRDT.Limits.documentSoftLimitBytes,
        hardBytes: Int = CRDT.Limits.documentHardLimitBytes
    ) {
        self.softBytes = softBytes
        self.hardBytes = hardBytes
    }
}

/// The module's limits: name with unit, value, reason. (Module and class share a name, so `Limits` alone
/// could not be qualified.)
public enum ReplicaLimits {
    /// How often opening tries to get the directory's lock, with `lockPause` in between (the original's 5 ×
    /// 200 ms).
    public static let lockAttempts = 5
    /// The pause between two tries.
    public static let lockPause = Duration.milliseconds(200)
    /// Concurrent readers of one store: each is a connection with a page cache of its own, made when it is
    /// needed first. Enough that twenty transactions that read, kept open by an application, leave room for
    /// statements and observers.
    public static let readers = 32
    /// How much of the file a reader maps into memory, in bytes; it reads what lies beyond. Takes addresses,
    /// not memory: the kernel holds those pages anyway, and lets go of them as it likes. Not where addresses
    /// are few.
    public static let mappedBytes = Int.bitWidth == 64 ? 1 << 30 : 0
    /// How long a statement waits for SQLite's file lock, in seconds (a checkpoint by another connection).
    public static let busyTimeoutSeconds = 60.0
    /// Writes that the server refused and that are kept for the application to read, the newest ones.
    public static let refusedWrites = 256
    /// Refused commits whose numbers are kept beyond that, some twenty bytes each.
    public static let refusedCommits = 65_536
    /// Their encoded bytes in all; one alone may have more.
    public static let refusedBytes = 64 * 1_048_576
    /// From so many bytes of inserted documents on an own operation refers to them (`StoredOperation`). Less
    /// is written whole: a commit writes some pages anyway, and what is changed soon after would be written
    /// then.
    public static let referredBytes = 16_384
    /// Bytes of an operation that is told with its commit, so that nobody reads it again to upload it.
    static let toldOperationBytes = 4_096
    /// Earlier actors of which the store remembers how far they were acknowledged, so that a server that was
    /// restored is noticed; each costs a few bytes of every greeting.
    public static let retiredActors = 64
    /// Fewer timestamps than this a store leaves out when it is opened: a millisecond has twice as many, and
    /// so far may a stamp be ahead of what the log has (decision 0009).
    static let skippedTimestamps: UInt64 = 32_768
    /// Operations per actor whose checksums a materialization keeps: how far back a store that forked learns
    /// exactly where. About 100 KB for an actor that has written so many.
    public static let historyOperations: UInt64 = 4_096
    /// Documents a repair asks for before the store looks again at what it has.
    public static let repairDocuments = 16_384
    /// Documents on one page of what a store holds.
    public static let heldDocuments = 1_024
    /// About how many bytes of vectors such a page has.
    public static let heldBytes = 262_144
    /// The latest time a stamp from elsewhere may bear, in Unix milliseconds: half of what 48 bits hold (the
    /// year 6429). A clock that followed a stamp at their very end could never draw another.
    public static let stampMilliseconds: UInt64 = 1 << 47
    /// About how many bytes a chunk of a snapshot has: some milliseconds of writing. One document alone may
    /// have more.
    public static let snapshotChunkBytes = 262_144
    /// Bytes of states, before and after, that one fold hands on, unless one operation alone has more: a
    /// thousand small changes of one large document are gigabytes.
    public static let foldedBytes = 24 * 1_048_576
    /// Tombstones that one read looks at while it searches for those to reap: some milliseconds.
    public static let visitedTombstones = 10_000
    /// The most bytes one part of an index key has; longer ones are cut (`KeyWriter`). Four such parts still
    /// fit a page of SQLite's; a text that differs from another one only after so much is found by reading
    /// it.
    public static let indexPartBytes = 512
    /// How many documents one step of building an index reads; between two steps other writers get their
    /// turn.
    public static let indexBuildDocuments = 1_000
    /// How many bytes of documents such a step reads at most, beside the first one: about as long as a commit
    /// takes.
    public static let indexBuildBytes = 1_048_576
}
