/// The limits of the module: unit, value and reason.
public enum Limits {
    /// The largest blob, unless configured otherwise.
    public static let blobBytes: Int64 = 5 * 1024 * 1024 * 1024
    /// The bytes read from a file at once: enough to keep a disk busy, little compared with any memory.
    public static let readChunkBytes = 256 * 1024
    /// The length of a SHA-256.
    public static let digestBytes = 32
    /// 32 bytes in base64url without padding.
    public static let idCharacters = 43
}
