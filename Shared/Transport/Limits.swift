/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// The pause before the second attempt to connect; it doubles with each failure and is jittered by half.
    public static let firstReconnectPause = Duration.milliseconds(500)
    /// The longest pause between two attempts: a server that comes back is found within it.
    public static let longestReconnectPause = Duration.seconds(15)
    /// How long the last frames of a session (its close reason among them) may take to leave.
    public static let lastFramesTimeout = Duration.seconds(2)
}
