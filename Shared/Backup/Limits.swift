import OperationLog

/// The bounds of this module, each with its unit and reason.
enum Limits {
    /// Bytes read or written at once: some hundred calls per second on a good disk.
    static let bufferBytes = 1 << 20
    /// Bytes of one frame: a chunk of a snapshot, which is larger than any operation, and its tag.
    static let frameBytes = LogLimits.chunkBytes + 1_024
    /// Bytes of a manifest: some hundred thousand databases.
    static let manifestBytes = 64 << 20
    /// Bytes of a sealed key.
    static let sealedKeyBytes = 1 << 20
    /// Bytes of a key file.
    static let keyBytes = 65_536
    /// Operations of one append of a restore: a commit of some ten milliseconds.
    static let appendedOperations = 1_000
    /// Their bytes.
    static let appendedBytes = 1 << 20
    /// Actors of one lookup or registration.
    static let actorsAtOnce = 2_000
    /// How often the copy of one database begins again because the log was truncated meanwhile.
    static let copyAttempts = 5
    /// Operations that a move leaves for the time in which nothing is written: a fraction of a second.
    static let moveRest: UInt64 = 1_000
    /// Rounds without fewer operations to copy than before, after which a move closes the former log: as many
    /// come as are copied.
    static let moveRounds = 3
    /// Characters of a passphrase, at least.
    static let passphraseCharacters = 12
    /// Bytes of a passphrase file.
    static let passphraseBytes = 4_096
    /// Rounds of PBKDF2 with SHA-256: the figure that OWASP recommends, less than a second.
    static let keyRounds = 600_000
    /// Rounds that a sealed key may ask for: a wrong file must not hold up a restore for hours.
    static let mostKeyRounds = 20_000_000
    /// Backups in one chain: more than a year of hourly ones.
    static let chainLength = 10_000
    /// Time between two storings of the mark of whoever changes the backups of a bucket.
    static let turnRenewal = Duration.seconds(60)
    /// Age at which such a mark no longer counts: five renewals, each of which is tried several times.
    static let turnSeconds: Int64 = 300
    /// Blobs named one by one in an answer.
    static let namedBlobs = 100
    /// Time that a restore or move waits for other users of the log, or makers of drafts, to have left.
    static let leavingPatience: Duration = .seconds(3)
    /// Time between two looks for them.
    static let leavingPause: Duration = .milliseconds(100)
}
