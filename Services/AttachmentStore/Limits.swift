/// The service's limits, with their reasons.
enum Limits {
    /// Time between two comparisons of all attachments with their names.
    static let scrubInterval: Duration = .seconds(7 * 24 * 3_600)
    /// Speed of that: 16 MB/s, which no disk feels, and a terabyte in less than a day.
    static let scrubBytesPerSecond = 16_000_000
    /// Most changed documents remembered until the next request for an attachment, about 100 bytes each.
    /// Beyond that, all documents are read again.
    static let rememberedChanges = 8_192
    /// Grace period of an attachment that no document mentions, in hours: a week, in which a device comes
    /// back that has written the document and was offline.
    static let graceHours: Int64 = 168
    /// Longest grace period that can be asked for, in hours: ten years, so that seconds stay small.
    static let longestGraceHours: Int64 = 87_600
    /// Time between two collections, in seconds: each reads all documents of a database.
    static let collectionSeconds: Int64 = 3_600
    /// Rows of one admin listing.
    static let listedRows = 1_000
    /// Attachments that a verification lists at once.
    static let verifiedAtOnce = 1_000
    /// Characters of a file name in `Content-Disposition`; a file system takes no more.
    static let fileNameCharacters = 255
    /// Time after which an unfinished upload with which nothing happens is removed: a device may be without a
    /// connection over night.
    static let uploadLifeSeconds: Int64 = 24 * 3_600
    /// Time between two looks for such uploads.
    static let uploadLook: Duration = .seconds(600)
    /// Time that a request waits for an earlier one to let go of its upload, which is a write to disk away.
    static let uploadTurn: Duration = .seconds(10)
    /// Time between two looks whether it has.
    static let uploadTurnLook: Duration = .milliseconds(20)
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
