/// The module's limits, with their reasons.
public enum Limits {
    /// A connection that sends nothing, or stops in the middle of a request, is closed after this long.
    public static let idleConnection: Duration = .seconds(75)
    /// Time that requests and WebSockets have to end after the process was asked to stop.
    public static let shutdownGrace: Duration = .seconds(10)
    /// Shortest time between two checks for a renewed certificate.
    static let certificateLook: Duration = .seconds(1)
    /// Shortest admin credential: 32 bytes as base64url have 43 characters.
    static let adminCredentialCharacters = 32
    /// Largest body that is read whole, unless its route says otherwise: a large statement with arguments.
    public static let requestBodyBytes = 2 * 1024 * 1024
    /// Shortest time between two fetches of the issuer's keys: forged key ids must not cause load there.
    public static let keyRefreshInterval: Duration = .seconds(2)
    /// Longest wait after repeated failures to fetch the keys.
    public static let keyRefreshBackoff: Duration = .seconds(30)
    /// Timeout of a fetch from the issuer; the requests that need its keys wait for it.
    public static let keyFetchTimeout: Duration = .seconds(3)
    /// Largest key set; a key takes a few hundred bytes.
    public static let keySetBytes = 4 * 1024 * 1024
    /// Most label combinations of one metric; further ones share a series marked `overflow`.
    public static let seriesPerMetric = 1000
    /// First wait before a failed fold of the log is retried: a full disk is seldom free at once.
    static let foldRetry: Duration = .seconds(1)
    /// Longest wait between two retries, so the longest time that a repaired disk goes unnoticed.
    static let foldRetryLongest: Duration = .seconds(30)
    /// Largest configuration file; it holds a handful of names.
    public static let configurationFileBytes = 64 * 1024
    /// Most instances of one service on one data folder; each takes the first free of so many folders.
    public static let instancesOnOneFolder = 16
    /// Actors per database and purpose: more than the processes that write one database at a time.
    public static let actorSlots = 64
    /// Lifetime of a service's lease of an actor unless renewed. A killed process blocks a slot for so long.
    public static let actorLease: Duration = .seconds(60)
    /// Attempts at a write of the system database when other gateways write too; few do, since people do it.
    static let systemWriteAttempts = 16
}
