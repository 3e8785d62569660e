/// The module's numbers, with their reasons.
public enum Limits {
    /// A connection that sends nothing, or stops in the middle of a request, is closed after this long.
    public static let idleConnection: Duration = .seconds(75)
    /// How long requests and WebSockets may take to end once the process was asked to stop.
    public static let shutdownGrace: Duration = .seconds(10)
    /// Between two looks at whether the certificate was renewed.
    static let certificateLook: Duration = .seconds(1)
    /// The fewest characters of an admin credential: 32 bytes as base64url have 43.
    static let adminCredentialCharacters = 32
    /// A body that is read whole when its route says nothing else: a large statement with its arguments.
    public static let requestBodyBytes = 2 * 1024 * 1024
    /// Least time between two fetches of the issuer's keys, so that forged key ids do not become its load.
    public static let keyRefreshInterval: Duration = .seconds(2)
    /// Longest wait after repeated failures to fetch the keys.
    public static let keyRefreshBackoff: Duration = .seconds(30)
    /// How long the issuer may take to answer; the requests that need its keys wait for it.
    public static let keyFetchTimeout: Duration = .seconds(3)
    /// Largest key set: some hundred bytes a key.
    public static let keySetBytes = 4 * 1024 * 1024
    /// Label combinations one metric may have; further ones share a series marked `overflow`.
    public static let seriesPerMetric = 1000
    /// First wait after a materialization could not fold its log: a full disk is seldom free at once.
    static let foldRetry: Duration = .seconds(1)
    /// Longest wait between two attempts, and so how long a cured disk may go unnoticed.
    static let foldRetryLongest: Duration = .seconds(30)
    /// The configuration file holds a handful of names.
    public static let configurationFileBytes = 64 * 1024
    /// Instances of one service that may run on one data folder; each looks for a free place among so many.
    public static let instancesOnOneFolder = 16
    /// Actors that services of one purpose share in a database: more processes than write one at a time.
    public static let actorSlots = 64
    /// How long a service's actor stays its own without a sign of life: a process that was killed leaves a
    /// slot taken for so long.
    public static let actorLease: Duration = .seconds(60)
    /// How often a write of the system database is tried against those of other gateways: people write it.
    static let systemWriteAttempts = 16
}
