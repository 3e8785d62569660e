/// The module's limits: name with unit, value, reason.
enum Limits {
    /// Most documents per transaction of an import: so many that a sync to disk costs little per document.
    static let importBatchDocuments = 1_000
    /// Text per transaction of an import, about: an operation, which holds stamps too, may have 16 MiB.
    static let importBatchBytes = 4 * 1_048_576
    /// Size of one read of a file.
    static let fileChunkBytes = 256 * 1_024
    /// Largest `.json` file: unlike lines and tables it is held in memory whole, at several times its size.
    static let jsonFileBytes = 1_073_741_824
    /// Longest line of a `.ndjson` file and longest row of a `.csv` file; a document may have 5 MiB.
    static let recordBytes = 64 * 1_048_576
    /// Timeout of a statement over HTTP.
    static let requestTimeoutSeconds: Int64 = 120
    /// Largest answer over HTTP.
    static let answerBytes = 1_073_741_824
    /// Timeout of `.wait` without its second argument.
    static let waitSeconds = 30.0
    /// Widest column of a table, in characters; longer values are cut.
    static let tableColumnCharacters = 60
}
