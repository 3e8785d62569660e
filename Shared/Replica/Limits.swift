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
    /// Concurrent readers of one store: each is a connection with a page cache of its own.
    public static let readers = 8
    /// How long a statement waits for SQLite's file lock, in seconds (a checkpoint by another connection).
    public static let busyTimeoutSeconds = 60.0
    /// The latest time a stamp from elsewhere may bear, in Unix milliseconds: half of what 48 bits hold (the
    /// year 6429). A clock that followed a stamp at their very end could never draw another.
    public static let stampMilliseconds: UInt64 = 1 << 47
}
