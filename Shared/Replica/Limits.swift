import CRDT
import DQL

/// The bounds on a document's size in local writes.
public struct DocumentLimits: Sendable {
    /// Encoded bytes above which a write gets a warning.
    public var softBytes: Int
    /// Encoded bytes above which a write that enlarges the document is refused.
    public var hardBytes: Int

    /// Limits; by default the language's.
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
    /// Rows that a count of documents and bytes reads between two looks at whether it is still wanted.
    static let surveyRows = 10_000
    /// How often opening tries to get the directory's lock, with `lockPause` in between (the original's 5 ×
    /// 200 ms).
    public static let lockAttempts = 5
    /// The pause between two tries.
    public static let lockPause = Duration.milliseconds(200)
    /// Concurrent readers of one store: each is a connection with its own page cache, created at its first
    /// use. Enough that twenty read transactions kept open by an application leave room for statements and
    /// observers, and that all evaluations which a service lets at one database leave room for its own reads.
    public static let readers = 64
    /// Bytes of the file that a reader maps into memory; it reads the rest. This takes addresses, not
    /// memory: the kernel caches those pages anyway, and drops them as it likes. Zero where addresses are
    /// few.
    public static let mappedBytes = Int.bitWidth == 64 ? 1 << 30 : 0
    /// How long a statement waits for SQLite's file lock, in seconds (a checkpoint by another connection).
    public static let busyTimeoutSeconds = 60.0
    /// Refused writes kept for the application to read, the newest ones.
    public static let refusedWrites = 256
    /// Numbers of refused commits kept beyond that, some twenty bytes each.
    public static let refusedCommits = 65_536
    /// Encoded bytes of all refused writes kept; a single one may have more.
    public static let refusedBytes = 64 * 1_048_576
    /// Bytes of inserted documents from which an own operation refers to them instead of copying them
    /// (`StoredOperation`). Smaller operations are written whole: a commit writes some pages anyway, and
    /// documents that change soon after would have to be copied then.
    public static let referredBytes = 16_384
    /// Bytes up to which an operation is handed out with its commit, so that it is not read again for the
    /// upload.
    static let toldOperationBytes = 4_096
    /// Earlier actors whose acknowledged sequence the store remembers, so that it notices a restored
    /// server; each costs a few bytes of every greeting.
    public static let retiredActors = 64
    /// The store skips fewer timestamps than this when it is opened. A millisecond has twice as many, and a
    /// stamp may be that far ahead of the log (decision 0009).
    static let skippedTimestamps: UInt64 = 32_768
    /// Documents on one page of what links brought, where that is too much for one list, and bytes of their
    /// states, unless it is one: the server appends a page at once, so a link that breaks soon gets on.
    static let linkPage = 16
    static let linkPageBytes = 32_768
    /// Documents that a list of what links brought names once more because the server had not seen all of
    /// them: some kilobytes of vectors. The first list of a session names more of them.
    public static let openHoldings = 64
    static let openHoldingsFirst = 512
    /// Bytes of the states of those documents, unless it is one: the server answers each with its own state.
    static let openBytes = 262_144
    /// Starts of a store whose marks it keeps for its feed, 16 bytes each: a cursor that is older than all of
    /// them lists again.
    static let feedStarts = 65_536
    /// How long a feed is remembered that was not met: its cursors go then, and the next meeting lists.
    static let feedPatience = Duration.seconds(30 * 86_400)
    /// How far a stamp that a link brings may be ahead of a clock that can be relied on, in milliseconds: as
    /// far as a server admits.
    static let aheadMilliseconds: UInt64 = 60_000
    /// The latest time of such a stamp where the own clock may be wrong by decades, in Unix milliseconds: the
    /// year 2100.
    static let latestMilliseconds: UInt64 = 4_102_444_800_000
    /// How long a clock can be relied on after a server has corrected it.
    static let clockTrust = Duration.seconds(7 * 86_400)
    /// Documents that are ahead of the clock, of all feeds, about 100 bytes each. Beyond that a feed's
    /// cursors are forgotten, so that it is listed again.
    static let aheadDocuments = 65_536
    /// Own operations that a store without a server keeps, and their bytes: what it would have to move if its
    /// file was put back. The documents have all that they say.
    static let ownOperations = 4_096
    static let ownOperationBytes = 16 * 1_048_576
    /// How long a store with links keeps a tombstone that its server has, and a note of void stamps. An older
    /// copy that a link brings later is shown to the server, and deleted anew.
    static let removalPatience = Duration.seconds(30 * 86_400)
    /// Actors of which a document's note takes void stamps from links, 16 bytes each. The server names
    /// further void stamps when it is asked.
    static let voidActors = 64
    /// Tombstones that one transaction forgets: some tens of milliseconds.
    static let forgottenTombstones = 2_000
    /// Notes that a store keeps, about 100 bytes each: the oldest go first.
    static let notes = 1_000_000
    /// How often a link is told the note of one document again in one session: often enough for a peer that
    /// evicts the document and takes an old copy again; one that does not believe the note shows it for ever.
    static let tellings = 8
    /// Documents of which a link's session counts that, about 100 bytes each.
    static let toldDocuments = 4_096
    /// Documents of one commit that are told live to links; a larger commit is read from the store.
    static let recordedDocuments = 4_096
    /// Bytes of their states, before and after.
    static let recordedBytes = 8 * 1_048_576
    /// Operations per actor whose checksums a materialization keeps: a forked store learns its exact fork
    /// point that far back. About 100 KB for an actor with so many operations.
    public static let historyOperations: UInt64 = 4_096
    /// Documents that a repair requests before the store checks again which ones it has.
    public static let repairDocuments = 16_384
    /// Documents on one page of a store's holdings.
    public static let heldDocuments = 1_024
    /// Approximate bytes of vectors on such a page.
    public static let heldBytes = 262_144
    /// The latest time of a stamp from elsewhere, in Unix milliseconds: half of the range of 48 bits (the
    /// year 6429). A clock that followed a stamp at the end of the range could never draw another.
    public static let stampMilliseconds: UInt64 = 1 << 47
    /// Approximate bytes of a snapshot's chunk: some milliseconds of writing. A single document may have
    /// more.
    public static let snapshotChunkBytes = 262_144
    /// Bytes of states, before and after, that one fold hands on, unless one operation alone has more: a
    /// thousand small changes of one large document would be gigabytes.
    public static let foldedBytes = 24 * 1_048_576
    /// Tombstones that one read examines in search of those to reap: some milliseconds.
    public static let visitedTombstones = 10_000
    /// Documents read by one step of building an index; other writers get their turn between two steps.
    public static let indexBuildDocuments = 1_000
    /// Bytes of documents read by such a step at most, beside the first document: about as long as a commit
    /// takes.
    public static let indexBuildBytes = 1_048_576
}
