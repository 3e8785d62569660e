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
}
