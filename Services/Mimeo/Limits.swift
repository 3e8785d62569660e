/// The module's limits: name with unit, value, reason.
enum Limits {
    /// Documents one transaction of an import holds: large enough that a sync to disk costs little per
    /// document.
    static let importBatchDocuments = 1_000
    /// … and about this many bytes of text: an operation, which holds stamps too, may have 16 MiB.
    static let importBatchBytes = 4 * 1_048_576
    /// How much of a file is read at once.
    static let fileChunkBytes = 256 * 1_024
    /// The largest `.json` file: unlike lines and tables it is held in memory whole, several times its size.
    static let jsonFileBytes = 1_073_741_824
    /// The longest line of a `.ndjson` file and the longest row of a `.csv` file: a document may have 5 MiB.
    static let recordBytes = 64 * 1_048_576
    /// How long a statement over HTTP may take.
    static let requestTimeoutSeconds: Int64 = 120
    /// The largest answer over HTTP that is read.
    static let answerBytes = 1_073_741_824
    /// How long `.wait` waits when it is not told.
    static let waitSeconds = 30.0
    /// The longest column of a table, in characters: longer values are cut.
    static let tableColumnCharacters = 60
}
