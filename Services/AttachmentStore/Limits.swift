/// The service's limits, with their reasons.
enum Limits {
    /// Time between two comparisons of all attachments with their names.
    static let scrubInterval: Duration = .seconds(7 * 24 * 3_600)
    /// Speed of that: 16 MB/s, which no disk feels, and a terabyte in less than a day.
    static let scrubBytesPerSecond = 16_000_000
    /// Most sums of lists that are kept until a document changes: one for each grant that pages through.
    static let rememberedSums = 256
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
    /// Pause between two attempts to note the place of attachments in a log that does not answer.
    static let placeRetry: Duration = .seconds(30)
    /// Characters of a file name in `Content-Disposition`; a file system takes no more.
    static let fileNameCharacters = 255
    /// Time that a download waits for the log, to name its file, where nobody has to be refused.
    static let namePatience: Duration = .seconds(1)
    /// Time after which an unfinished upload with which nothing happens is removed: a device may be without a
    /// connection over night.
    static let uploadLifeSeconds: Int64 = 24 * 3_600
    /// Time between two looks for such uploads.
    static let uploadLook: Duration = .seconds(600)
    /// Time that a request waits for an earlier one to let go of its upload, which is a write to disk away.
    static let uploadTurn: Duration = .seconds(10)
    /// Time between two looks whether it has.
    static let uploadTurnLook: Duration = .milliseconds(20)
    /// Bytes of one part of an upload to a bucket, unless 10,000 of them are too few. S3 asks for 5 MiB.
    static let bucketPartBytes = 8 * 1024 * 1024
    /// Parts in memory at once, for all uploads together: 64 MiB.
    static let bucketPartsAtOnce = 8
    /// Attempts of one request to a bucket, and the pause before the second; it grows fourfold. All of them
    /// take some seconds, as long as a client waits gladly.
    static let bucketAttempts = 4
    static let bucketPause = Duration.milliseconds(100)
    /// Time until a bucket's answer begins: a part of an upload is written by then.
    static let bucketTimeout = Duration.seconds(60)
    /// Time without a byte of an answer.
    static let bucketSilence = Duration.seconds(30)
    /// Connections to a bucket: a hundred downloads, and some uploads beside them.
    static let bucketConnections = 128
    /// The largest answer that is no object: a listing of 1,000 keys has some 500 KiB.
    static let bucketAnswerBytes = 8 * 1024 * 1024
    /// The largest object that is read at once: a ledger, a list of chunks.
    static let bucketSmallBytes = 256 * 1024 * 1024
    /// Objects that are known to be whole, some 150 bytes each. Beyond it all are compared again.
    static let knownObjects = 65_536
    /// Time for which a turn to collect in a bucket counts, if its process does not end it: two hours, after
    /// a crash.
    static let bucketTurnSeconds: Int64 = 2 * 3_600
    /// Time for which an answer about a bucket's health is used again.
    static let bucketHealth = Duration.seconds(10)
    /// Time for which an answer about the folder's health is used again: monitors look every few seconds.
    static let folderHealth = Duration.seconds(1)
    /// Elements within elements of a bucket's answer; S3's have four.
    static let documentDepth = 16
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
