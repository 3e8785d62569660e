/// The service's limits: name with unit, value, reason.
public enum Limits {
    /// Largest body of a request: a statement with arguments for documents of the hard limit.
    public static let requestBytes = 12 * 1_048_576
    /// Longest wait of a request for the state it asks for.
    public static let transactionWait = Duration.seconds(10)
    /// Bytes of a statement that are parsed where it arrives: some microseconds.
    static let plainStatementBytes = 4_096
    /// Most bytes of an answer's rows, approximately: it is held and sent whole.
    public static let answerBytes = 128 * 1_048_576
    /// Rows of an answer that are printed where it is sent.
    static let plainAnswerRows = 64
    /// Most lanes in which slow statements write one database: each leases an actor of the log.
    static let slowLanes = 4
    /// Statements that are remembered as too slow for the quick lane.
    static let slowStatements = 256
    /// Most writes of one database that wait in one lane of this process.
    public static let waitingWrites = 1_024
    /// Attempts at a statement while others write data it read, or the log knows another history of this
    /// process's actor. Each retry means that somebody else succeeded, so many in a row mean real contention.
    static let writeAttempts = 16
}
