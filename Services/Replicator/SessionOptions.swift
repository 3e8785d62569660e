import ArgumentParser

/// How the replicator treats connections.
public struct SessionOptions: Sendable {
    /// A ping after so long; a peer that says nothing for three times as long is gone.
    public var keepAlive = Limits.keepAlive
    /// How long a peer may take to greet, in whole seconds: until then it holds a session that is nobody's.
    public var greetingSeconds = Limits.greetingSeconds
    /// How long a peer waits for a database that is being opened before it is sent elsewhere, in whole
    /// seconds.
    public var openingSeconds = Limits.openingSeconds

    /// How many databases are open without a session.
    public var idleDatabases = Limits.idleDatabases
    /// How long one stays open behind its last session in any case.
    public var idlePatience = Limits.idlePatience

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
