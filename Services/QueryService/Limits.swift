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
    /// Attempts at a statement while others write data it read, or the log knows another history of this
    /// process's actor. Each retry means that somebody else succeeded, so many in a row mean real contention.
    static let writeAttempts = 16
}
