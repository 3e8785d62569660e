/// The service's numbers, with their reasons.
public enum Limits {
    /// A login is a few hundred bytes, a provider's token some kilobytes.
    public static let loginBodyBytes = 64 * 1024
    /// How long a session of the development provider lasts: a day, so that a developer logs in about once
    /// per working day and a token that leaks into a terminal's history is soon worthless.
    public static let developmentSession: Duration = .seconds(24 * 60 * 60)
    /// 256 bits, as much as the hash behind every comparison.
    public static let developmentTokenBytes = 32
    /// One attempt at a webhook: a person waits for it.
    static let webhookTimeout: Duration = .seconds(5)
    /// A server that does not take a connection by then is not there.
    static let webhookConnectTimeout: Duration = .seconds(2)
    /// The first call and two more.
    static let webhookAttempts = 3
    /// Before the second attempt twice this, before the third four times.
    static let webhookPause: Duration = .milliseconds(50)
    /// A webhook's answer with permissions for hundreds of collections.
    static let webhookAnswerBytes = 64 * 1024
    /// Calls that are under way at one webhook at once: at 50 ms each this is 5,000 logins a second.
    static let webhookCalls = 256
    /// Failures in a row after which a webhook is left alone,
    static let webhookFailures = 5
    /// and for how long, until one login tries it again.
    static let webhookRest: Duration = .seconds(10)
    /// A provider's name for a user stands in every token.
    static let userIDBytes = 1_024
    /// The name of a provider.
    static let providerNameBytes = 128
    /// The least length of an anonymous provider's token, so that it is not guessed.
    static let sharedTokenBytes = 16
    /// The least length of a signing secret: as much as the hash that it keys.
    static let signingSecretBytes = 32
}
