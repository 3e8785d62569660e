/// The limits of the module: unit, value and reason.
public enum Limits {
    /// The longest token. A grant with some hundred queries fits. An unauthenticated caller can make us
    /// parse no more than this, far below the 80 KiB that a header may have.
    public static let tokenBytes = 16 * 1024
    /// The allowed difference between the clocks of two servers, before one refuses the other's tokens.
    public static let clockSkew: Duration = .seconds(60)
    /// The number of verified tokens kept, so that a peer's hundredth request costs a lookup instead of a
    /// signature check. About 1 KiB each.
    public static let verifiedTokens = 4096
    /// The number of compiled grants kept, so that tokens of one role share one. `tokenBytes` bounds each.
    static let compiledGrants = 256
    /// The number of keys in a key set: a key and its predecessor for thousands of databases.
    public static let keysPerSet = 16_384
    /// The number of permission queries on one side of a grant.
    public static let queriesPerGrant = 1024
    /// The part of an unknown name that an error shows.
    static let shownCharacters = 40
    /// The length of a database id; it is also a folder name.
    public static let databaseIDBytes = 128
    /// The longest life of a peer's certificate, which is also the time that two peers can authenticate each
    /// other without a server.
    public static let certificateLife: Duration = .seconds(7 * 24 * 60 * 60)
    /// The life of an authority's certificate. The key is rotated earlier.
    static let authorityLife: Duration = .seconds(10 * 365 * 24 * 60 * 60)
    /// The longest peer key. `pk` and a compressed point in base64url take 46 bytes.
    static let peerKeyBytes = 64
    /// The random bytes that a peer is asked to sign: enough that no challenge ever repeats.
    static let challengeBytes = 32
    /// The two numbers of a P-256 signature.
    static let challengeAnswerBytes = 64
    /// The largest certificate or request: room for a grant with hundreds of queries.
    public static let certificateBytes = 32 * 1024
    /// The longest text of a shared private key: a P-256 key in PEM with its curve parameters spelled out
    /// takes less than 1 KiB.
    static let sharedKeyBytes = 8 * 1024
}
