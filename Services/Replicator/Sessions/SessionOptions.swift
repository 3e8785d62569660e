import ArgumentParser
import ServiceKit

/// Options for the replicator's connections.
public struct SessionOptions: Sendable {
    /// Interval of pinging; a peer that is silent for three intervals is gone.
    public var keepAlive = Limits.keepAlive
    /// The time for a peer's greeting, in whole seconds: until then its session is anonymous.
    public var greetingSeconds = Limits.greetingSeconds
    /// How long a peer waits for a database that is being opened before it is sent to another instance, in
    /// whole seconds.
    public var openingSeconds = Limits.openingSeconds

    /// The number of open databases without a session.
    public var idleDatabases = Limits.idleDatabases
    /// The least time that a database stays open after its last session.
    public var idlePatience = Limits.idlePatience

    /// The time that ends sessions: expired tokens, greetings and openings that take too long.
    var clock = DeadlineWatch.Clock.system

    /// The defaults.
    public init() {}
}

/// The flags for these options.
public struct SessionFlags: ParsableArguments, Sendable {
    /// In seconds.
    @Option(help: .setting("keepAliveSeconds")) public var keepAliveSeconds: UInt32?

    /// An empty value for the parser.
    public init() {}

    /// The resulting options, with environment and configuration file.
    /// - Throws: `SRV-0104` if a number is too small.
    public func options(_ configuration: ServiceConfiguration) throws(ServiceError) -> SessionOptions {
        var options = SessionOptions()
        if let seconds = try configuration.number(keepAliveSeconds, "keepAliveSeconds") {
            options.keepAlive = .seconds(Int64(seconds))
        }
        return options
    }
}
