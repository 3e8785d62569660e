/// The service's limits, with their reasons.
public enum Limits {
    /// Largest login request: it has a few hundred bytes, a provider's token some kilobytes.
    public static let loginBodyBytes = 32 * 1024
    /// Most members of a login, at any depth: it has five.
    static let loginValues = 32
    /// Logins of one address within `attemptWindow` that cannot be read, after which it has to wait: a
    /// program that sends such ones does not stop by itself, and people behind the address log in meanwhile.
    static let malformedPerAddress = 100
    /// Lifetime of a session of the development provider: a day, so that a developer logs in about once per
    /// working day, and a token that leaks into a terminal's history soon expires.
    public static let developmentSession: Duration = .seconds(24 * 60 * 60)
    /// Life of a signed URL unless said: long enough to load a page and to seek in a film once.
    static let urlSeconds: Int64 = 300
    /// Longest life of a signed URL: whoever sees one may use it.
    static let longestURLSeconds: Int64 = 3_600
    /// Most URLs of one request: a page of attachments; each takes a signature of 0.1 ms.
    static let urlsPerRequest = 100
    /// Longest token of a signed URL: web servers between take lines of 8 KB.
    static let urlTokenBytes = 6_000
    /// Longest id of an attachment; they have 43 bytes.
    static let attachmentIDBytes = 128
    /// Timeout of one attempt at a webhook: a person waits for it.
    static let webhookTimeout: Duration = .seconds(5)
    /// Attempts at a webhook: the first call and two retries.
    static let webhookAttempts = 3
    /// Unit of the pauses: two of it before the second attempt, four before the third.
    static let webhookPause: Duration = .milliseconds(50)
    /// Most calls in flight at one webhook: at 50 ms each this is 5,000 logins a second. Each has a
    /// connection of its own.
    public static let webhookCalls = 256
    /// Longest wait of a login for its turn while `webhookCalls` are in flight: half of what people wait.
    static let webhookTurn: Duration = .seconds(5)
    /// Most logins that wait for their turn at one webhook; about 1 KB each.
    static let webhookWaiting = 2_048
    /// Failures of one address without an answer after which its logins no longer call a webhook: an office
    /// may be one address, and one user of it may have a token that makes the webhook fail.
    static let webhookFailures = 20
    /// Time for which such an address rests; failures before that are forgotten.
    static let webhookRest: Duration = .seconds(10)
    /// Time without an answer to anybody after which a webhook may count as silent: two timeouts.
    static let webhookSilence: Duration = .seconds(10)
    /// Addresses that must have failed meanwhile, so that few strangers prove nothing.
    static let silentAddresses = 5
    /// Most logins in flight that probe a silent webhook from addresses that have not failed.
    static let webhookProbes = 64
    /// Shortest time between two probes of a silent webhook from other addresses.
    static let webhookProbePause: Duration = .seconds(1)
    /// Longest user id from a provider; it is part of every token.
    static let userIDBytes = 1_024
    /// Longest name of a provider.
    static let providerNameBytes = 128
    /// Shortest token of an anonymous provider, so that it cannot be guessed.
    static let sharedTokenBytes = 16
    /// Shortest signing secret: the length of the hash that it keys.
    static let signingSecretBytes = 32
    /// Fewest characters of a secret in a file; 256 bits have 64 in hexadecimal, 43 in base64.
    static let secretCharacters = 32
    /// Records per write to the system database: an operation of some hundred kilobytes.
    static let recordsPerWrite = 256
    /// Largest admin request: a provider with its secrets.
    static let adminBodyBytes = 64 * 1024
    /// Longest lifetime of an API key.
    static let apiKeyLifeSeconds: Int64 = 366 * 24 * 60 * 60
    /// Longest name of an API key.
    static let nameBytes = 256
    /// Most named admin credentials: people and programs of one operator.
    static let adminCredentials = 1_000
    /// Failed logins within `attemptWindow` after which an address has to wait: people mistype.
    static let failuresPerAddress = 20
    /// Failed logins at one provider, from all addresses, after which an address may fail once instead of
    /// `failuresPerAddress` times: many people log in there, and some mistype.
    static let failuresPerProvider = 600
    /// Most logins in flight of one address without failures: an office behind one address starts its day.
    /// Half of `webhookCalls`, so that one address cannot take them all.
    static let attemptsUnderWay = 128
    /// Window in which failures are counted; they are forgotten after it.
    static let attemptWindow: Duration = .seconds(60)
    /// Most counted sources of one kind, about 100 bytes each; the oldest are forgotten first.
    static let countedSources = 16_384
    /// Most signing secrets of one webhook: a few during a rotation.
    static let signingSecrets = 8
    /// Length of a signing secret that the gateway makes.
    static let madeSigningSecretBytes = 128
    /// Largest metadata of an identity; it is part of every token and certificate.
    static let metadataBytes = 4_096
    /// Parameters of scrypt for new passwords: 32 MiB, and with three lanes the work that OWASP advises. It
    /// takes some 0.2 s of one core, which a person does not mind and a guesser does.
    static let passwordParameters = PasswordHash.Parameters(logRounds: 15, blockSize: 8, parallelism: 3)
    /// Fewest characters of a password (NIST SP 800-63B).
    static let passwordCharacters = 8
    /// Longest password: longer ones add nothing to a hash of 256 bits.
    static let passwordBytes = 1_024
    /// Longest name of an account: that of an address of mail, and some.
    static let accountNameBytes = 256
    /// Logins that wait for a thread that hashes; each has some kilobytes.
    static let hashesWaiting = 512
    /// The same of one network: an office that starts its day.
    static let hashesWaitingOfOne = 64
    /// Failed logins of one account from one network within `accountWindow`: people mistype.
    static let failuresPerAccount = 10
    /// Failed logins of one account, from all networks, after which a network that was never the person's may
    /// fail once.
    static let failuresOfStrangers = 50
    /// Window in which failures of an account are counted.
    static let accountWindowSeconds: Int64 = 15 * 60
    /// Most accounts and networks whose failures wait to be written, about 150 bytes each.
    static let countedAccounts = 65_536
    /// Shortest time between two writes of failures: other gateways learn of them this much later.
    static let failuresPause: Duration = .seconds(1)
    /// Records of failures in the system database, and counts in each: 2 MB at most, and no list that
    /// strangers make longer.
    static let failurePlaces = 4_096
    static let failuresPerPlace = 8
    /// Networks that an account keeps: home, work, a phone's, and some.
    static let accountNetworks = 8
    /// Sessions of an account that have neither ended nor expired; the oldest one ends for another.
    static let accountSessions = 32
    /// Ended sessions that an account keeps.
    static let keptEndedSessions = 64
    /// Time after its end for which the revocation of a session is kept: clocks are wrong by minutes.
    static let endedSessionSeconds: Int64 = 60 * 60
    /// Default length of a session of an account: a working day and the night after it.
    static let accountSessionSeconds: Int64 = 24 * 60 * 60
    /// Length of a login with an API key; the peer renews it without asking anybody.
    static let keySessionSeconds: Int64 = 24 * 60 * 60
    /// Peers that an API key lists, the latest ones.
    static let keyPeers = 16
    /// A peer's last login is noted once in this time, since each note is a write to the log.
    static let keyPeerSeconds: Int64 = 24 * 60 * 60
    /// Default time of an invitation: a person reads mail within a week.
    static let invitationSeconds: Int64 = 7 * 24 * 60 * 60
    /// Time of a link that resets a password.
    static let resetSeconds: Int64 = 60 * 60
    /// Longest time of a link.
    static let longestLinkSeconds: Int64 = 90 * 24 * 60 * 60
    /// Shortest time between two mails that strangers can have sent to one account.
    static let mailPauseSeconds: Int64 = 10 * 60
    /// Calls of webhooks for mail that are under way or wait.
    static let mailsUnderWay = 64
    /// Most links of a database at one time.
    static let accountLinks = 20_000
    /// Time in which a person answers a device (RFC 8628 says some minutes).
    static let joinSeconds: Int64 = 10 * 60
    /// First interval between two questions of a device.
    static let joinInterval: Int64 = 2
    /// Added to the interval of a device that asks too often (RFC 8628, 3.5).
    static let joinSlowDown: Int64 = 5
    /// Most devices that wait for an answer, in all databases.
    static let joins = 1_024
    /// The same of one network, and the codes that it gets in a minute.
    static let joinsOfOneNetwork = 16
    /// Longest name of a device: what a peer's own name may have.
    static let deviceNameBytes = 64
    /// Most accounts in one answer.
    static let accountsPerPage = 1_000
    /// Most users of a database with limits of their own: one record has them all.
    static let limitedUsers = 1_000
    /// Most sets of permissions of a database.
    static let permissionSets = 256
    /// Length of an administrator's look at what an account sees.
    static let viewSeconds: Int64 = 10 * 60
}
