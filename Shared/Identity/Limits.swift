/// The module's numbers, with their reasons.
public enum Limits {
    /// A grant with some hundred queries fits; the limit keeps what an unauthenticated caller can make us
    /// parse far below the 80 KiB a header may have.
    public static let tokenBytes = 16 * 1024
    /// How far the clocks of two servers may differ before a token of one is refused by the other.
    public static let clockSkew: Duration = .seconds(60)
    /// Verified tokens kept, so that a peer's hundredth request costs a lookup and not a signature check.
    /// About 1 KiB each.
    public static let verifiedTokens = 4096
    /// Compiled grants kept, so that the tokens of one role share them. A token of `tokenBytes` bounds each.
    static let compiledGrants = 256
    /// Keys one key set may hold: a key and its predecessor for thousands of databases.
    public static let keysPerSet = 16_384
    /// Permission queries a grant may hold on one side.
    public static let queriesPerGrant = 1024
    /// Length of a database id; it is also a folder name.
    public static let databaseIDBytes = 128
    /// How long a peer's certificate lasts at most: so long do two peers authenticate each other without a
    /// server.
    public static let certificateLife: Duration = .seconds(7 * 24 * 60 * 60)
    /// How long an authority's certificate lasts; rotation comes first.
    static let authorityLife: Duration = .seconds(10 * 365 * 24 * 60 * 60)
    /// `pk` and a compressed point in base64url are 46.
    static let peerKeyBytes = 64
    /// What a peer is asked to sign: nobody is asked the same twice.
    static let challengeBytes = 32
    /// The two numbers of a P-256 signature.
    static let challengeAnswerBytes = 64
    /// A certificate with a grant of hundreds of queries, or a request for one.
    public static let certificateBytes = 32 * 1024
}
