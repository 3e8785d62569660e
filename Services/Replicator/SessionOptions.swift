import ArgumentParser

/// How the replicator treats connections.
public struct SessionOptions: Sendable {
    /// A ping after so long; a peer that says nothing for three times as long is gone.
    public var keepAlive = Limits.keepAlive

    /// The defaults.
    public init() {}
}

/// The flags of it.
public struct SessionFlags: ParsableArguments, Sendable {
    /// In seconds.
    @Option(
        help: ArgumentHelp(
            "Time between two pings of a peer; one that is silent for three is gone (default 30).",
            valueName: "seconds"))
    public var keepAliveSeconds: UInt32?

    /// Empty, for the parser.
    public init() {}

    /// The options that the flags come to.
    public var options: SessionOptions {
        var options = SessionOptions()
        if let seconds = keepAliveSeconds { options.keepAlive = .seconds(max(1, Int64(seconds))) }
        return options
    }
}
