import ArgumentParser
import Foundation

/// The bounds of an evaluation pool.
public struct EvaluationOptions: Sendable {
    /// The time of a statement over HTTP, from its acceptance to its answer.
    public var statementTime = Limits.statementTime
    /// The processor's time that one evaluation of a subscription may take: a page of a catch-up, or a batch
    /// of changes. It ends after `statementTime` in any case, and begins again if it had less
    /// of the processor.
    public var subscriptionTime = Limits.subscriptionTime
    /// Most running statements of one credential in one database.
    public var statementsPerCredential = Limits.statementsPerCredential
    /// Turns that compute at a time.
    public var places = max(Limits.evaluationPlaces, 2 * ProcessInfo.processInfo.activeProcessorCount)

    /// The bounds of `Limits`.
    public init() {}
}

/// The flags for these options.
public struct EvaluationFlags: ParsableArguments, Sendable {
    /// In seconds.
    @Option(help: .setting("statementSeconds")) public var statementSeconds: UInt32?
    /// In seconds.
    @Option(help: .setting("subscriptionSeconds")) public var subscriptionSeconds: UInt32?
    /// How many.
    @Option(help: .setting("statementsPerCredential")) public var statementsPerCredential: UInt32?

    /// Empty, for the parser.
    public init() {}

    /// The resulting options, with the settings of the configuration file.
    /// - Throws: `SRV-0104` if a number is too small.
    public func options(_ configuration: ServiceConfiguration) throws(ServiceError) -> EvaluationOptions {
        var options = EvaluationOptions()
        if let seconds = try configuration.number(statementSeconds, "statementSeconds") {
            options.statementTime = .seconds(Int64(seconds))
        }
        if let seconds = try configuration.number(subscriptionSeconds, "subscriptionSeconds") {
            options.subscriptionTime = .seconds(Int64(seconds))
        }
        if let most = try configuration.number(statementsPerCredential, "statementsPerCredential") {
            options.statementsPerCredential = Int(most)
        }
        return options
    }
}
