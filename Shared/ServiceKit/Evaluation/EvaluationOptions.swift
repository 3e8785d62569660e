import ArgumentParser
import Foundation

/// The bounds of an evaluation pool.
public struct EvaluationOptions: Sendable {
    /// The time of a statement over HTTP, from its acceptance to its answer.
    public var statementTime = Limits.statementTime
    /// The time that one evaluation of a subscription may compute: a page of a catch-up, or a batch of
    /// changes. It ends after `statementTime` in any case.
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
    @Option(
        help: ArgumentHelp(
            "Time limit of a statement over HTTP (default 30, at least 1).", valueName: "seconds"))
    public var statementSeconds: UInt32?

    /// In seconds.
    @Option(
        help: ArgumentHelp(
            "Time that one evaluation of a sync subscription may compute (default 5, at least 1).",
            valueName: "seconds"))
    public var subscriptionSeconds: UInt32?

    /// How many.
    @Option(
        help: ArgumentHelp(
            "Most running statements of one credential in a database (default 32, at least 1).",
            valueName: "count"))
    public var statementsPerCredential: UInt32?

    /// Empty, for the parser.
    public init() {}

    /// The resulting options, with the settings of the configuration file.
    /// - Throws: `SRV-0104` if a number is too small.
    public func options(_ configuration: ServiceConfiguration) throws(ServiceError) -> EvaluationOptions {
        var options = EvaluationOptions()
        if let seconds = try configuration.number(statementSeconds, "statementSeconds", least: 1) {
            options.statementTime = .seconds(Int64(seconds))
        }
        if let seconds = try configuration.number(subscriptionSeconds, "subscriptionSeconds", least: 1) {
            options.subscriptionTime = .seconds(Int64(seconds))
        }
        if let most = try configuration.number(
            statementsPerCredential, "statementsPerCredential", least: 1)
        {
            options.statementsPerCredential = Int(most)
        }
        return options
    }
}
