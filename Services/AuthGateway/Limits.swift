/// The service's numbers, with their reasons.
public enum Limits {
    /// A login is a few hundred bytes, a provider's token some kilobytes.
    public static let loginBodyBytes = 64 * 1024
    /// How long a session of the development provider lasts: a day, so that a developer logs in about once
    /// per working day and a token that leaks into a terminal's history is soon worthless.
    public static let developmentSession: Duration = .seconds(24 * 60 * 60)
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
    /// A secret in a file has 256 bits, in hexadecimal or base64.
    static let secretCharacters = 32
    /// Records that are written to the system database at once: an operation of some hundred kilobytes.
    static let recordsPerWrite = 256
    /// An admin request names one thing; a provider with its secrets is the largest.
    static let adminBodyBytes = 64 * 1024
    /// The longest an API key lasts.
    static let apiKeyLifeSeconds: Int64 = 366 * 24 * 60 * 60
    /// What a person calls a key.
    static let nameBytes = 256
    /// Failed logins after which an address waits, within `attemptWindow`: a person mistypes some times.
    static let failuresPerAddress = 20
    /// Failed logins at one provider, wherever they come from, after which an address has one mistake instead
    /// of `failuresPerAddress`: many people log in there, some of whom mistype.
    static let failuresPerProvider = 600
    /// Logins of one address that are under way at once, while none of it has failed: an office behind one
    /// address begins to work. A quarter of `webhookCalls`: one address does not take them all.
    static let attemptsUnderWay = 64
    /// Failures are counted over so long, and forgotten after it.
    static let attemptWindow: Duration = .seconds(60)
    /// Sources of one kind that are counted at a time; the oldest are forgotten first. About 100 bytes each.
    static let countedSources = 16_384
    /// Signing secrets of one webhook at a time: a few while they are rotated.
    static let signingSecrets = 8
    /// A signing secret that the gateway makes.
    static let madeSigningSecretBytes = 128
    /// What an identity shows to every peer: it stands in every token and certificate.
    static let metadataBytes = 4_096
}
