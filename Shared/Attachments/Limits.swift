/// The limits of the module: unit, value and reason.
public enum Limits {
    /// The largest blob, unless configured otherwise.
    public static let blobBytes: Int64 = 5 * 1024 * 1024 * 1024
    /// The bytes read from a file at once: enough to keep a disk busy, little compared with any memory.
    public static let readChunkBytes = 256 * 1024
    /// The beginning of an id that names its shelf: some thousand folders for millions of blobs.
    static let shelfCharacters = 2
    /// Blobs that a store remembers as compared: some megabytes. Beyond it all are compared again.
    static let knownBlobs = 65_536
    /// Damaged files of one id that are kept; a further one replaces the last. More would be a broken disk.
    static let damagedCopies = 100
    /// Unfinished uploads of one owner: far more than one program has at a time.
    static let uploadsPerOwner = 64
    /// Bytes that the unfinished uploads of one owner may announce together, in largest blobs.
    static let uploadBlobsPerOwner: Int64 = 4
    /// Finished uploads of one owner that are remembered for a client that missed the answer.
    static let finishedUploads = 64
    /// Uploads whose hash is kept between two requests; another one's bytes are read again. 300 bytes each.
    static let keptDigests = 256
    /// Blobs that one pass of the collection removes: some seconds of a disk's work.
    public static let collectedBlobs = 10_000
    /// Blobs whose mentions are looked for at once, 16 bytes each; more than that are several looks through
    /// the documents.
    static let collectionSlice = 500_000
    /// Time for which a collected blob is known to have been collected.
    static let collectedSeconds: Int64 = 30 * 24 * 3_600
    /// Time that a source rests after its first failure; it doubles each time.
    static let firstSourcePause = Duration.milliseconds(500)
    /// The longest of these pauses: a blob that somebody uploads is found within it.
    static let longestSourcePause = Duration.seconds(30)
    /// Chunks that may differ from their hashes before the hashes are doubted.
    static let failedChunks = 4
    /// The metadata of one upload as its client writes it: names and types, no content.
    public static let uploadMetadataBytes = 8 * 1024
    /// The characters of an upload's name: 16 for its owner, 32 drawn ones.
    public static let uploadNameCharacters = 48
    /// The length of a SHA-256.
    public static let digestBytes = 32
    /// 32 bytes in base64url without padding.
    public static let idCharacters = 43
}
