/// The service's numbers, with their reasons.
enum Limits {
    /// Changed documents that are remembered until somebody asks for an attachment; beyond that all are
    /// looked through once more. About 100 bytes each.
    static let rememberedChanges = 8_192
    /// RFC 2046 section 5.1.1.
    static let boundaryBytes = 70
    /// The headers of one part: a disposition with a file name and a content type.
    static let partHeaderBytes = 8 * 1024
    /// What may stand before the first part; usually nothing.
    static let preambleBytes = 8 * 1024
    /// Fields beside the file are read over; more than this is no form of ours.
    static let fieldBytes = 64 * 1024
    /// Parts of one form.
    static let parts = 16
}
