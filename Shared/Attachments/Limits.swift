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
    /// The length of a SHA-256.
    public static let digestBytes = 32
    /// 32 bytes in base64url without padding.
    public static let idCharacters = 43
}
