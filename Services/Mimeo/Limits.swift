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
    /// Largest file of a token or key: several times the largest token of a login.
    static let secretBytes = 65_536
    /// Statements that the prompt's history keeps; the file is cut back to them when it has twice as many.
    static let historyStatements = 2_000
    /// Largest statement that goes to the history: a longer one was pasted and would only fill the file.
    static let historyStatementBytes = 65_536
    /// Largest history file that is read; a larger one was not written here.
    static let historyFileBytes = 64 * 1_048_576
    /// Documents that are read to find a collection's fields for completion.
    static let sampledDocuments = 50
    /// Collections whose fields are kept for completion.
    static let sampledCollections = 100
    /// Fields offered for a collection, and names that a list of choices shows.
    static let offeredNames = 200
    /// Depth of fields within fields that completion offers, like `a.b.c`.
    static let offeredDepth = 3
    /// Time that the Tab key may wait for names from the store or the server.
    static let completionSeconds = 2.0
    /// Pause after which pasted lines have arrived: a terminal hands them over at once.
    static let pasteMilliseconds: Int32 = 20
}
