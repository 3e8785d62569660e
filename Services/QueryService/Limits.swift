/// The service's limits: name with unit, value, reason.
public enum Limits {
    /// Largest body of a request: a statement with arguments for documents of the hard limit.
    public static let requestBytes = 12 * 1_048_576
    /// Longest wait of a request for the state it asks for.
    public static let transactionWait = Duration.seconds(10)
    /// Deadline of a statement, which is cancelled then: no client waits longer for an answer over HTTP.
    public static let statementTime = Duration.seconds(60)
    /// Most writes of one database that wait in this process.
    public static let waitingWrites = 1_024
    /// Time for which the answer to a write with an `Idempotency-Key` is kept: a client that was switched off
    /// over night still learns what became of its write.
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
    /// Attempts at a statement while others write data it read, or the log knows another history of this
    /// process's actor. Each retry means that somebody else succeeded, so many in a row mean real contention.
    static let writeAttempts = 16
}
