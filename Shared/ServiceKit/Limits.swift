/// The module's limits, with their reasons.
public enum Limits {
    /// A connection that sends nothing, or stops in the middle of a request, is closed after this long.
    public static let idleConnection: Duration = .seconds(75)
    /// Largest head of a request, all lines together: a token has up to 16 KiB, and proxies add fields.
    static let headBytes = 128 * 1024
    /// Longest line of a head; nginx in front takes 32 KiB.
    static let headLineBytes = 64 * 1024
    /// Most fields of a head; clients and proxies send some twenty.
    static let headFields = 256
    /// Time from a head's first byte to its last, then 408: it fits into a few packets.
    static let headTime: Duration = .seconds(30)
    /// Longest silence within a body, then 408: far beyond what a mobile network is silent.
    static let bodySilence: Duration = .seconds(30)
    /// Slowest body after its first `bodySilence`, then 408: a body that drips would hold its connection for
    /// ever.
    static let bodyBytesPerSecond = 1_000
    /// Longest silence of a client that goes on sending a body after its answer; then the connection is
    /// closed. Within it, a client that reads the answer only after its own last byte has gone on.
    static let lingerSilence: Duration = .seconds(2)
    /// Longest time that the rest of an answered request is read and dropped: 64 MB at 50 Mbit/s.
    static let lingerTime: Duration = .seconds(10)
    /// Longest `X-Request-ID` that is taken from a client: it stands in every line of the log.
    static let requestIDCharacters = 128
    /// Shortest answer that is packed: below, gzip saves less than a packet.
    static let packedAnswerBytes = 1_024
    /// Bytes that a packed or unpacked body takes at a time: what one request holds, and the largest step.
    static let gzipStepBytes = 64 * 1024
    /// Effort of gzip, from 1 to 9: 6 makes JSON 5 % smaller, and takes twice as long.
    static let gzipLevel: Int32 = 4
    /// Time for which a browser need not ask again before a request from another origin.
    static let preflightSeconds = 600
    /// Longest list of header fields that the answer to a preflight repeats.
    static let preflightFieldsCharacters = 1_024
    /// Most characters of an unknown name that its refusal repeats.
    static let shownCharacters = 64
    /// Characters at the beginning that make two names akin: `arguments` and `args`.
    static let commonBeginning = 3
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
    /// Time within which the second damage of one copy is a failing disk rather than an accident.
    static let damageWindow: Duration = .seconds(3_600)
    /// Shortest time between two rebuilds of a copy that is damaged again and again: a rebuild reads the log.
    static let damagePause: Duration = .seconds(30)
    /// Damages of one copy that are remembered; two decide.
    static let notedDamages = 8
    /// Share of a disk that is kept free of ordinary writes, unless `--disk-reserve-percent` says otherwise.
    public static let diskReservePercent = 5
    /// Largest reserve: on a disk of some terabytes a share would be room for months.
    static let diskReserveBytes: Int64 = 10 << 30
    /// Shortest time between two looks at a disk: a look takes some microseconds, a write some hundred.
    static let diskLook: Duration = .milliseconds(500)
    /// Pause after each part of the log that is read to check it, a megabyte or less: 10 MB/s, which no disk
    /// feels.
    static let scrubPause: Duration = .milliseconds(100)
    /// Time between two readings of the whole log.
    static let scrubInterval: Duration = .seconds(24 * 3_600)
    /// Largest file that tells of a log that was put back: a line per record.
    static let restoreNoticeBytes = 16 << 20
    /// Records that a restore takes back and that are named; the others are counted.
    static let namedRecords = 1_000
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
