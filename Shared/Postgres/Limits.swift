/// The bounds of this module, each with its unit and reason. What concerns logs in general stands in
/// `LogLimits`.
public enum PostgresLimits {
    /// How long connecting may take before the server counts as unreachable, in whole seconds: more than a
    /// server that recovers answers with, less than a caller waits.
    static let connectTimeoutSeconds = 5
    /// How long a service that starts waits for a server that does not answer: services and server start
    /// together.
    public static let startPatience = Duration.seconds(30)
    /// How long sent bytes may stay unacknowledged before a connection counts as dead: a server that was
    /// unplugged must not hold a writer for the system's quarter of an hour.
    static let unacknowledgedTimeout = Duration.seconds(10)
    /// Connections that read; each serves one read after the other.
    static let readLanes = 4
    /// Reads that wait for a lane before further ones are refused (`LOG-0305`).
    static let waitingReads = 1_024
    /// The first pause before a lost watching connection is opened again; it doubles up to the last.
    static let firstReconnectPause = Duration.milliseconds(50)
    /// The longest pause between two attempts.
    static let lastReconnectPause = Duration.seconds(5)
}
