import DQL
import ServiceKit

/// The service's limits: name with unit, value, reason.
public enum Limits {
    /// Largest body of a request: a statement with arguments for documents of the hard limit.
    public static let requestBytes = 12 * 1_048_576
    /// The groups of an import: so many lines that a commit costs little for each, and no more bytes than
    /// others wait for while they are stored. A line is as long as the body of a request.
    static let importGroups = BodyLines.Bounds(lines: 1_000, bytes: 1 << 20, lineBytes: requestBytes)
    /// Warnings of an import, of all its groups.
    static let importWarnings = 16
    /// Most statements of one transaction.
    public static let transactionStatements = 1_000
    /// Statements of a transaction that a list of statements shows.
    static let shownSteps = 8
    /// Characters of an unknown name that an error repeats.
    static let shownNameCharacters = 64
    /// Longest wait of CREATE INDEX for the index; it is completed after the answer then.
    static let indexWait = Duration.seconds(20)
    /// The first pause between two looks whether PostgreSQL has built an index; it doubles up to the last.
    static let firstIndexLook = Duration.milliseconds(5)
    /// The longest pause between two such looks.
    static let lastIndexLook = Duration.milliseconds(100)
    /// Pause after a store could not build its indexes.
    static let indexRetry = Duration.seconds(5)
    /// Longest wait of a request for the state it asks for.
    public static let transactionWait = Duration.seconds(10)
    /// Most statements of one database that wait for its fold, some KB each. A fold that stands still
    /// keeps statements whose time is over, too.
    public static let waitingForFold = 4_096
    /// Most members and elements of a live query's arguments in an address, which has 64 KiB.
    static let requestValues = 4_096
    /// Bytes of a statement that are parsed where it arrives: some microseconds.
    static let plainStatementBytes = 4_096
    /// Most members and elements of a body that is parsed on an event loop: a tenth of a millisecond.
    static let briefValues = 512
    /// The work of a statement that is answered on an event loop: half a millisecond of a slow core. The
    /// documents' bytes are those of the largest answer there.
    static let briefBudget = ExecutionBudget(
        steps: 2_000, documents: 128, bytes: ServiceKit.Limits.briefBytes)
    /// Statements that spent that budget and are remembered, and the time for which they are: trying again
    /// costs half a millisecond.
    static let overrunTexts = 256
    static let overrunTime = Duration.seconds(10)
    /// Time of an answer on an event loop after which its thread is asked whether it has read the disk.
    static let briefPatience = Duration.milliseconds(2)
    /// Time for which no statement is answered on event loops once the disk was read there.
    static let diskRest = Duration.milliseconds(100)
    /// Threads whose reads of the disk are remembered: event loops are as many as cores.
    static let restingThreads = 1_024
    /// Most bytes of an answer's rows, approximately: it is held and sent whole.
    public static let answerBytes = 128 * 1_048_576
    /// Bytes of an answer's rows in memory, approximately. Beyond it rows are printed at once, and wait for
    /// their client where lines do.
    static let heldAnswerBytes = 1 << 20
    /// Bytes of rows as lines that wait for their client in memory; further ones go to a file.
    static let spoolHeldBytes = 1 << 20
    /// Bytes of rows in that file, of one answer: ten million rows of 400 bytes.
    static let spoolFileBytes = 4 << 30
    /// Bytes that are read from it at a time.
    static let spoolReadBytes = 256 << 10
    /// Rows of an answer that are printed where it is sent, and their bytes.
    static let plainAnswerRows = 64
    static let plainAnswerBytes = 16 << 10
    /// Most lanes in which slow statements write one database: each leases an actor of the log.
    static let slowLanes = 4
    /// Statements that are remembered as too slow for the quick lane.
    static let slowStatements = 256
    /// Most writes of one database that wait in one lane of this process.
    public static let waitingWrites = 1_024
    /// Bytes of recent operations and the states around them, per database that somebody follows: some
    /// thousand small writes, so that a follower of a mobile network comes back in time.
    static let recentBytes = 16 << 20
    /// Time for which recent operations are kept after the last follower has left: one that was cut off comes
    /// back within seconds.
    static let recentTime = Duration.seconds(60)
    /// Bytes of operations that a follower takes at a time: what one slow stream holds.
    static let batchBytes = 1 << 20
    /// Folds of the past that are kept for the next reader, of all databases; each is files on disk.
    static let keptFolds = 8
    /// Their bytes on disk.
    static let keptFoldBytes = 4 << 30
    /// Time after which a fold that nobody reads is closed.
    static let keptFoldTime = Duration.seconds(600)
    /// Folds that readers of changes hold at a time while they are behind.
    static let lentFolds = 32
    /// Folds that are moved at a time, one of an account: each has files as large as its database. Their
    /// steps take turns in the pool.
    static let movedFolds = 4
    /// Accounts that wait for that, and requests of one account.
    static let waitingFolds = 64
    /// Operations between two marks by which times are found in the log: some milliseconds of reading.
    static let timeMarkOperations = 1_000
    /// Actors whose authors one stream remembers.
    static let knownAuthors = 10_000
    /// Shortest silence of a stream before a line of life: proxies and phones cut connections that are silent
    /// for a minute.
    static let aliveInterval = Duration.seconds(15)
    /// How often a silent stream looks at its credential and its client.
    static let streamLook = Duration.seconds(5)
    /// Streams of one credential that are open: an application's server follows for all its users.
    public static let streamsOfCredential = 4_096
    /// Streams that are open in this process, of some forty kilobytes each, connection included.
    public static let streams = 8_192
    /// Bytes of a live query's latest events, for followers that are a little behind. Beyond it a follower
    /// gets the whole result again.
    static let eventBytes = 4 << 20
    /// Bytes of rows in one event of a result; a larger result comes in several.
    static let resultPartBytes = 1 << 20
    /// Bytes of the rows of one live query, which this process keeps to compare.
    public static let observedBytes = 64 << 20
    /// Memory of one such row besides its bytes.
    static let keptRowBytes = 64
    /// Documents of a legacy `find` without a limit, as in the original.
    static let legacyDocuments: Int64 = 1_000
    /// Bytes that a stream gathers before it writes.
    static let writeBytes = 65_536
    /// Most documents in one list of those with concurrent values.
    static let listedConflicts: UInt64 = 1_000
    /// Bytes of a question about a subscription: its statement, its arguments and an id.
    static let subscriptionTestBytes = 1 << 20
    /// Most lines of a feed that ends by itself, and rows of a history, unless the request says less.
    static let historyRows: UInt64 = 1_000
    /// Bytes of the states in one history, unless a single change has more: each is compared with the one
    /// before, and the values of both stand in the answer.
    static let historyBytes = 8 << 20
    /// The memory of such a state with its values and their text, in times of its bytes.
    static let historyWeight = 4
    /// Operations of the log that a history reads at a time.
    static let historyStep = 4_000
    /// Longest condition or list of collections in a request for changes, in bytes.
    static let conditionBytes = 8_192
    /// Time for which the answer to a write with an `Idempotency-Key` is kept: a client that was switched off
    /// over night still learns the outcome of its write.
    public static let keptAnswers = Duration.seconds(86_400)
    /// Most such answers of one user in one database: one every nine seconds, all day.
    public static let keptAnswersPerUser = 10_000
    /// Largest such answer that is kept whole; a larger one loses its rows and ids.
    static let keptAnswerBytes = 16 * 1_024
    /// Longest time for which the count of such answers is taken for right: other processes write some too.
    static let keptAnswersLook = Duration.seconds(60)
    /// The same where a user has too many: some of them may be old by now.
    static let keptAnswersSecondLook = Duration.seconds(1)
    /// Most old answers that one write removes: it is answered after that.
    static let keptAnswersRemoved = 100
    /// Most operations that are read in search of the one that a kept answer belongs to.
    static let keptAnswerSearch = 10_000
    /// Time from which a statement counts as slow, and is listed for administrators.
    public static let slowStatement = Duration.milliseconds(500)
    /// Slow statements that this process remembers, of all databases.
    static let slowStatementsKept = 1_000
    /// Bytes of a slow statement that are read for those characters, some of which are values: it is noted
    /// beside everybody's requests, and may have megabytes.
    static let readSlowBytes = 16_384
    /// Characters of a slow statement that are kept.
    static let shownSlowCharacters = 2_000
    /// Longest time for which the sizes of collections are shown again: counting reads every row's head.
    static let surveyAge = Duration.seconds(10)
    /// How many times as long as the count took its result is shown again: a console that is open takes at
    /// most a twentieth of one processor.
    static let surveyShare = 20
    /// Databases whose sizes are kept so.
    static let surveysKept = 100
    /// Documents in a sample of a collection, unless the request says less or more.
    static let sampleDocuments: UInt64 = 1_000
    /// Most documents in a sample.
    static let sampleDocumentsMost: UInt64 = 10_000
    /// Keys that the shape of a collection lists.
    static let shapeKeys = 1_000
    /// Names in the path of such a key.
    static let shapeDepth = 8
    /// Characters of an example in it.
    static let shownExampleCharacters = 120
    /// Rows in one page of a list for administrators.
    static let listedRows: UInt64 = 1_000
    /// Most writes of one database that are drafted, appended and folded together.
    static let groupedWrites = 64
    /// Time after which no further write joins a group: everybody in it waits for the last one.
    static let groupTime = Duration.milliseconds(50)
    /// Most time by which a credential's writes come before those of another one that has written all along.
    static let writeCredit = Duration.seconds(1)
    /// Credentials that write no more and whose time is remembered while others wait; up to twice as many for
    /// a moment.
    static let absentWriters = 512
    /// Webhooks of one database; each is a reader of its log.
    static let webhooksOfDatabase = 32
    /// Lines in one call of a webhook.
    public static let webhookLines = 100
    /// Bytes of lines in one call, unless a single line has more.
    public static let webhookBytes = 256 << 10
    /// Time of one call of a webhook, with its answer.
    public static let webhookTimeout = Duration.seconds(15)
    /// The pause after a first failed call; twice as long after each further one.
    public static let webhookFirstPause = Duration.seconds(1)
    /// The longest pause.
    static let webhookLongestPause = Duration.seconds(300)
    /// How often an instance looks whether another one that delivers has gone.
    static let webhookLook = Duration.seconds(5)
    /// Time between two records of how far a webhook has got: as much comes again after a crash.
    static let webhookSaving = Duration.seconds(5)
    /// Longest address of a webhook, in bytes.
    static let webhookURLBytes = 2_048
    /// Most collections that a webhook names.
    static let webhookCollections = 100
    /// Largest request about a webhook.
    static let webhookRequestBytes = 64 << 10
    /// Shortest signing secret of a webhook: the length of the hash that it keys.
    static let webhookSecretBytes = 32
    /// Characters of the reason why a call failed that are shown.
    static let shownFailureCharacters = 300
    /// Attempts at a statement while others write data it read, or the log knows another history of this
    /// process's actor. Each retry means that somebody else succeeded, so many in a row mean real contention.
    static let writeAttempts = 16
}
