/// The service's limits: name with unit, value, reason.
public enum Limits {
    /// The most bytes a request's body may have: the largest statement and arguments for documents of the
    /// hard limit.
    public static let requestBytes = 12 * 1_048_576
    /// How long a request waits for the state it asks for.
    public static let transactionWait = Duration.seconds(10)
    /// How long a statement may run before it is cancelled: nobody waits longer for an answer over HTTP.
    public static let statementTime = Duration.seconds(60)
    /// Writes of one database that may wait for their turn in this process.
    public static let waitingWrites = 1_024
    /// How often a statement is tried while others write what it read, or the log knows another history of
    /// this process's actor. Each try needs somebody else's success, so many in a row mean real contention.
    static let writeAttempts = 16
}
