/// The service's limits, with their reasons.
enum Limits {
    /// Time between two comparisons of all attachments with their names.
    static let scrubInterval: Duration = .seconds(7 * 24 * 3_600)
    /// Speed of that: 16 MB/s, which no disk feels, and a terabyte in less than a day.
    static let scrubBytesPerSecond = 16_000_000
    /// Most changed documents remembered until the next request for an attachment, about 100 bytes each.
    /// Beyond that, all documents are read again.
    static let rememberedChanges = 8_192
    /// Longest boundary, by RFC 2046 section 5.1.1.
    static let boundaryBytes = 70
    /// Largest headers of one part: a disposition with a file name, and a content type.
    static let partHeaderBytes = 8 * 1024
    /// Most bytes before the first part; usually there are none.
    static let preambleBytes = 8 * 1024
    /// Most bytes of all fields beside the file, which are ignored; no client of ours sends more.
    static let fieldBytes = 64 * 1024
    /// Most parts of one form.
    static let parts = 16
}
