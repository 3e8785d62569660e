/// The module's limits: name with unit, value, reason.
enum Limits {
    /// How long a login may take: it is one small request, and a dead network should not be waited for.
    static let loginTimeoutSeconds: Int64 = 30
    /// How long a connection for HTTP may take to be made.
    static let connectTimeoutSeconds: Int64 = 10
    /// The largest answer to a login: a token of at most 16 KiB and what a provider has for the application.
    static let loginAnswerBytes = 256 * 1_024
    /// The pause before the expiration handler is asked again after a login that failed; doubles each time.
    static let firstLoginPause = Duration.milliseconds(500)
    /// The longest of those pauses: a server that comes back is found within it.
    static let longestLoginPause = Duration.seconds(15)
    /// A session is renewed when this part of its life is left …
    static let renewalFraction = 0.1
    /// … but at least this long before its end (half its life, where that is shorter), so that a slow login
    /// still comes in time.
    static let renewalLead = Duration.seconds(60)
}
