import Dispatch

/// The module's limits, with their reasons.
public enum Limits {
    /// Timeout of a connection to a webhook: a server that accepts slowly drops some of many connections that
    /// come at once, and the system tries those again after 1 s and after 3 s.
    static let webhookConnectTimeout: Duration = .seconds(4)
    /// Largest answer of a webhook: permissions for hundreds of collections.
    static let webhookAnswerBytes = 64 * 1024
    /// Connections to one host, for all webhooks there: none of their calls ever waits for one.
    static let webhookConnections = 16_384
    /// A connection that sends nothing, or stops in the middle of a request, is closed after this long.
    public static let idleConnection: Duration = .seconds(75)
    /// Largest body of a request that is answered on the event loop, and its largest answer: parsing and
    /// writing so much takes a fraction of a millisecond.
    public static let briefBytes = 64 * 1024
    /// Time after which a connection's next request goes the asynchronous way, where its idle timer sees it.
    static let briefRenewal: Duration = .seconds(15)
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
    /// Share of the machine's or container's memory that clients may hold: their bodies, rows and answers. A
    /// quarter of it is not counted byte by byte, and stores and indexes need the rest.
    static let clientMemoryShare = 8
    /// Least memory for clients: an account has half of it, and so room for one of the largest bodies with
    /// some 45,000 values. A machine of less than 768 MiB needs the rest.
    static let leastClientBytes = 96 << 20
    /// Most memory for clients: answers wait on disk, so more memory serves nobody.
    static let mostClientBytes = 256 << 20
    /// Room on disk for answers that wait: two of the largest at a time, of one credential one.
    static let spooledBytes = 8 << 30
    /// Share of a budget up to which an account holds little, and may still have the last quarter.
    static let smallAccountShare = 16
    /// Bytes of a body, or of a text, that are read where they arrive: some hundred microseconds. They belong
    /// to the connection.
    public static let briefBodyBytes = 4_096
    /// Most members and elements of a body: a bulk of ten thousand documents has that many.
    public static let bodyValues = 500_000
    /// Most of them in a request that is read where it arrives, such as a configuration.
    public static let requestValues = 4_096
    /// Memory of one such value while it is read, on the average.
    static let valueBytes = 256
    /// Memory of a body's bytes while it is read, in times of them: a copy, and the texts of its values.
    static let readBodyWeight = 2
    /// Memory of a node that the preparation of a statement visits, on the average: parsed, bound and
    /// planned.
    static let nodeBytes = 128
    /// Nodes that are counted together.
    static let countedNodes = 1_024
    /// Bytes of an answer that are written at a time. Shorter ones belong to the connection.
    static let answerPieceBytes = 64 << 10
    /// Bytes of an answer that is told as CBOR where it is sent; a longer one of a route that has only JSON
    /// stays JSON.
    static let retoldAnswerBytes = 1 << 20
    /// Bytes that clients let go of after which free memory is given back to the system.
    static let largeHoldBytes = 4 << 20
    /// Bytes after which it is given back soon: a burst would leave ten times as much within a minute.
    static let muchFreeBytes = 64 << 20
    /// Time until then, once for all requests that end meanwhile: giving back locks the heap, some hundred
    /// milliseconds of a large one.
    static let memoryPause: DispatchTimeInterval = .seconds(60)
    /// The same after a burst: the next one comes beside what the one before has left free.
    static let shortMemoryPause: DispatchTimeInterval = .seconds(2)
    /// The same for what a burst leaves to be closed.
    static let laterMemoryPause: DispatchTimeInterval = .seconds(8)
    /// Heaps of the C library for each processor: threads that allocate at the same time seldom wait for one
    /// another, and what is free in one heap is of no use in another.
    static let heapsOfProcessor = 2
    /// Bytes from which a block of memory has pages of its own, which go back at once: those of bodies, long
    /// texts and lists. The system's work for one is less than a thousandth of filling it.
    static let ownBlockBytes = 256 << 10
    /// Free bytes at the end of a heap that stay there for the next request.
    static let heapEndBytes = 8 << 20
    /// Longest `X-Request-ID` that is taken from a client: it stands in every line of the log.
    static let requestIDCharacters = 128
    /// Longest time that a stream waits for a client that reads nothing, which is cut off then: within it a
    /// mobile network has come back, and meanwhile the stream holds one event and no transaction.
    static let writeStall: Duration = .seconds(30)
    /// Longest `Idempotency-Key`: a UUID has 36 characters, and some clients put names in front.
    static let idempotencyKeyCharacters = 255
    /// Shortest answer that is packed: below, gzip saves less than a packet.
    static let packedAnswerBytes = 1_024
    /// Bytes that a packed or unpacked body takes at a time: what one request holds, and the largest step.
    static let gzipStepBytes = 64 * 1024
    /// How many times its bytes a body may unpack to, beyond `unpackedBytes`: texts and tables have up to 50.
    static let unpackedRatio = 200
    static let unpackedBytes = 64 << 20
    /// Longest piece that is packed where it is sent: some hundred microseconds.
    static let plainPackedBytes = 8 * 1024
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
    /// Interval of looking for remains of deleted databases without an event: an upload that was under way
    /// ends within it.
    static let erasureLook: Duration = .seconds(60)
    /// Time that requests and WebSockets have to end after the process was asked to stop, unless
    /// `--stop-seconds` says otherwise.
    public static let shutdownGrace: Duration = .seconds(10)
    /// Time beyond draining and `--stop-seconds` after which a stop that stands still is given up: parts
    /// close their folds and files in it.
    static let stopSpare: Duration = .seconds(5)
    /// Time for which a service behind a proxy serves on after it was asked to stop, unless
    /// `--drain-seconds` says otherwise: longer than the front keeps an idle connection (2 s).
    static let proxyDrain: Duration = .seconds(3)
    /// Time for the requests on the last connections to arrive, after the kernel lets no more begin: a busy
    /// machine's scheduling.
    static let lastConnections: Duration = .milliseconds(250)
    /// Shortest time between two checks for a renewed certificate.
    static let certificateLook: Duration = .seconds(1)
    /// Shortest admin credential: 32 bytes as base64url have 43 characters.
    static let adminCredentialCharacters = 32
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
    /// Time limit of a statement over HTTP unless `--statement-seconds` says otherwise: hardly a client waits
    /// longer for an answer.
    public static let statementTime: Duration = .seconds(30)
    /// The processor's time of one evaluation of a subscription unless `--subscription-seconds` says
    /// otherwise: a page of a catch-up takes some milliseconds.
    public static let subscriptionTime: Duration = .seconds(5)
    /// Most running statements of one credential in one database unless `--statements-per-credential` says
    /// otherwise: more than a service with a pool of connections has, and few enough that a handful of
    /// credentials cannot take all threads.
    public static let statementsPerCredential = 32
    /// Least number of turns that compute at a time: more than there are cores, since some wait for a disk or
    /// for PostgreSQL.
    static let evaluationPlaces = 8
    /// Time that a turn computes before others have theirs: a point read takes a fraction of it.
    static let evaluationSlice: Duration = .milliseconds(10)
    /// Most time by which a credential comes before the others, in nanoseconds: it may compute so much more
    /// at once than those that computed before it came.
    static let evaluationCreditNanoseconds: UInt64 = 200_000_000
    /// Credentials whose time is counted at once: more than compute beside each other.
    static let chargedCredentials = 1_024
    /// Time that a turn computes before all other work of the machine comes first: hardly an honest
    /// statement takes so long.
    static let evaluationMoment: Duration = .milliseconds(100)
    /// Longest urgent turn, in time of the processor or of a server that it waits for: everybody who writes
    /// the same database waits for it.
    public static let urgentTurn: Duration = .milliseconds(100)
    /// Longest urgent turn by the clock: a busy machine is not its fault, but the others wait all the same.
    public static let urgentTurnByClock: Duration = .seconds(1)
    /// Most threads of evaluations; each takes some memory, and mostly waits.
    static let evaluationThreads = 192
    /// Most evaluations that read one store of a service at a time: each has a connection of its own, and
    /// some are left to the service itself (`ReplicaLimits.readers`).
    public static let evaluationsOfStore = 56
    /// Most characters of a statement that the list of running ones shows.
    static let shownStatementCharacters = 1_024
    /// First wait before a failed fold of the log is retried: a full disk is seldom free at once.
    static let foldRetry: Duration = .seconds(1)
    /// Longest wait between two retries, so the longest time that a repaired disk goes unnoticed.
    static let foldRetryLongest: Duration = .seconds(30)
    /// Time without contact with the log after which health fails: longer than a failover of PostgreSQL on
    /// one machine, shorter than people wait.
    public static let contact: Duration = .seconds(10)
    /// Time without contact after which credentials are refused, and so the longest time that a revocation
    /// takes to reach an instance that is cut off. A restart of PostgreSQL with recovery fits into it.
    public static let contactGrace: Duration = .seconds(60)
    /// Longest interval of reading the log's head to confirm contact; a read takes less than a millisecond.
    static let contactBeat: Duration = .seconds(2)
    /// Interval of checking whether running sessions have outlived the grace.
    public static let contactLook: Duration = .milliseconds(500)
    /// Age of an admin credential's file, in seconds, from which a change of it shows in its times: file
    /// systems count them in ticks.
    static let settledSeconds: Int64 = 2
    /// Interval of writing the audit's waiting entries: what a killed process may lose of logins.
    static let auditPause: Duration = .seconds(1)
    /// Entries of the audit in one operation, some 300 bytes each.
    static let auditBatch = 500
    /// Most entries that wait while the log is away: some 3 MB.
    static let auditWaiting = 10_000
    /// Window in which equal logins are one entry.
    static let auditWindowMilliseconds: Int64 = 60_000
    /// Kinds of logins of one result that have entries of their own in a window: an office of that size logs
    /// in within a minute, and a flood adds no more than these.
    static let auditKinds = 500
    /// Longest text of a client in an entry.
    static let auditTextCharacters = 256
    /// Days after which an entry is removed.
    static let auditDays: Int64 = 90
    /// Most entries that are kept: some 100 MB with their index.
    static let auditEntries: Int64 = 200_000
    /// Entries removed by one operation.
    static let auditRemovedAtOnce: Int64 = 1_000
    /// Interval of looking for entries to remove.
    static let auditTrimPause: Duration = .seconds(3_600)
    /// Rows of the audit in one answer.
    public static let auditRows = 1_000
    /// Bytes of such an answer in memory: entries have one to three thousand.
    static let auditAnswerBytes = 8 << 20
    /// Bytes of rows that its statement may gather at a time.
    static let auditGatheredBytes = 64 << 20
    /// Reads of the audit that wait for the one before.
    static let auditReads = 64
    /// Longest time of reading the audit, and of waiting for it.
    static let auditReadTime: Duration = .seconds(30)
    /// Shortest time between two lines of the log about a proxy that is not believed: each request would
    /// write one.
    static let forwardingNotice: Duration = .seconds(3_600)
    /// Time within which the second damage of one copy is a failing disk rather than an accident.
    static let damageWindow: Duration = .seconds(3_600)
    /// Shortest time between two rebuilds of a copy that is damaged again and again: a rebuild reads the log.
    static let damagePause: Duration = .seconds(30)
    /// Damages of one copy that are remembered; two decide.
    static let notedDamages = 8
    /// Share of a disk that is kept free of ordinary writes, unless `--disk-reserve-percent` says otherwise.
    public static let diskReservePercent = 5
    /// Greatest share that may be asked for: a greater reserve would be a mistake.
    static let mostReservePercent = 90
    /// Largest reserve: on a disk of some terabytes a share would be room for months.
    static let diskReserveBytes: Int64 = 10 << 30
    /// Shortest time between two looks at a disk: a look takes some microseconds, a write some hundred.
    static let diskLook: Duration = .milliseconds(500)
    /// Pause after each part of the log that is read to check it, a megabyte or less: 10 MB/s, which no disk
    /// feels.
    static let scrubPause: Duration = .milliseconds(100)
    /// Time between two readings of the whole log.
    static let scrubInterval: Duration = .seconds(24 * 3_600)
    /// Time between two tries of a log's storage that was full.
    static let roomInterval: Duration = .seconds(2)
    /// Largest file that tells of a log that was put back: a line per record.
    static let restoreNoticeBytes = 16 << 20
    /// Records that a restore takes back and that are named; the others are counted.
    static let namedRecords = 1_000
    /// Largest configuration file; it holds a handful of names.
    public static let configurationFileBytes = 64 * 1024
    /// Positions of own writes that a materializer remembers: more than wake-ups that are under way.
    static let ownPositions = 32
    /// Most instances of one service on one data folder; each takes the first free of so many folders.
    public static let instancesOnOneFolder = 16
    /// Actors per database and purpose: more than the processes that write one database at a time.
    public static let actorSlots = 64
    /// Lifetime of a service's lease of an actor unless renewed. A killed process blocks a slot for so long.
    public static let actorLease: Duration = .seconds(60)
    /// Attempts at a write of the system database when other gateways write too; few do, since people do it.
    static let systemWriteAttempts = 16
    /// Longest session of the console: a working day.
    public static let consoleSessionSeconds: Int64 = 12 * 3_600
    /// Longest value of a cookie: browsers drop a cookie of more than 4,096 bytes, its name included.
    static let cookieBytes = 3_800
    /// Largest body of a sign-in at the console: an object of one member.
    public static let consoleBodyBytes = 4_096
    /// Interval of recording the metrics for plots.
    public static let metricStep: Duration = .seconds(5)
    /// Readings of the parts' lags and sessions: at every third of those times, as a scraper would ask.
    public static let metricTurnsOfGauges = 3
    /// Readings kept of each metric at that interval: one hour.
    static let metricPoints = 720
    /// Every so many readings one is kept for longer: one a minute.
    static let metricCoarseness = 12
    /// Readings kept of each metric at the coarser interval: one day.
    static let metricCoarsePoints = 1_440
    /// Metrics with kept readings: more than there are, some 35 KB each.
    static let metricNames = 200
    /// Age of an append that waits for its commit, from which an instance is not ready: a disk takes
    /// milliseconds, PostgreSQL with a fail-over some seconds.
    static let appendStall: Duration = .seconds(10)
    /// Age of such an append from which others are refused: clients give up at about that time.
    static let appendRefusal: Duration = .seconds(30)
    /// Time of a commit from which the storage is slow, if each of the last commits took it: a disk takes
    /// milliseconds, and a second of it is noticed by everybody who writes.
    static let slowCommit: Duration = .seconds(1)
    /// The commits of which the fastest tells the storage's pace, and the pause after which they tell none.
    static let paceChanges = 5
    static let paceWindow: Duration = .seconds(60)
    /// Seconds after which a tool's copy of the system database was left by an interrupt: a read takes some.
    static let directoryCopySeconds = 3_600
    /// Spans that wait for the collector: some MB, and half a minute of a busy server.
    static let queuedSpans = 8_192
    /// Spans of one request to the collector.
    static let sentSpans = 512
    /// Longest time that a span waits while the collector answers.
    static let spanInterval: Duration = .seconds(2)
    /// Time until the collector answers.
    static let spanTimeout: Duration = .seconds(10)
    /// Events of one span.
    static let spanEvents = 32
    /// Warnings or errors of one message that are written in a window; the others are counted.
    static let repeatedLines = 10
    /// The window: an outage of minutes still has a line for its beginning, and one for each part of it.
    static let repeatWindow: Duration = .seconds(10)
    /// Messages that are counted at a time.
    static let repeatWindows = 256
    /// Latest lines of the log that are kept in memory for an operator; up to twice as many for a moment.
    static let keptLines = 500
    /// Longest line of the log that is kept whole: a stack of errors has a few hundred bytes.
    static let keptLineBytes = 2_048
    /// Time of a changed level of the log unless said otherwise, and the longest: debug lines fill a disk.
    static let levelSeconds: UInt64 = 600
    static let longestLevelSeconds: UInt64 = 86_400
    /// Interval of comparing what is folded with the log's head, for the lag.
    public static let lagLook: Duration = .seconds(5)
    /// Databases that are compared in one look, and that have a series of their own in a metric.
    public static let watchedDatabases = 100
    /// Heads of one database that are remembered while its fold is behind; the lag's error is a 32nd of it.
    static let watchedHeads = 64
    /// Age of the oldest operation that is not folded, from which an instance is not ready: its answers would
    /// be older than people accept, and another instance may be further.
    static let readyLag: Duration = .seconds(30)
    /// Shortest time between two readings of what metrics tell and what is read only for them: anybody may
    /// ask for them.
    static let measureInterval: Duration = .seconds(5)
    /// Combinations of method, route and status that a process counts: more than there are.
    static let requestKinds = 2_000
    /// Part of a limit by the second that a database or user may use at once: two seconds of it.
    static let limitBurst: Duration = .seconds(2)
    /// Largest debt of bytes, in time of the limit: whoever shares it waits no longer for what others have
    /// used. An attachment of a gigabyte at 300 kB a second owes as much.
    public static let limitDebt: Duration = .seconds(3_600)
    /// Window of what metrics tell of such a limit: twice the interval of usual scrapes.
    static let limitWindow: Duration = .seconds(20)
    /// Seconds after which a peer without a place for its session asks again.
    static let limitedSessionSeconds: Double = 10
    /// Databases and users whose use is counted, about 300 bytes each.
    static let limitedSubjects = 65_536
    /// Life of a named admin credential unless said otherwise: people forget what they have handed out.
    public static let adminCredentialSeconds: Int64 = 90 * 86_400
    /// Longest life of a named admin credential.
    public static let longestAdminCredentialSeconds: Int64 = 366 * 86_400
}
