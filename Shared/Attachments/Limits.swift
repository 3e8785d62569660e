/// The module's numbers, with their reasons.
public enum Limits {
    /// Largest blob when nothing else is configured.
    public static let blobBytes: Int64 = 5 * 1024 * 1024 * 1024
    /// What is read from a file at once: large enough to keep a disk busy, small beside any memory.
    public static let readChunkBytes = 256 * 1024
    /// SHA-256.
    public static let digestBytes = 32
    /// 32 bytes in base64url without padding.
    public static let idCharacters = 43
}
