/// The module's limits: name with unit, value, reason.
enum Limits {
    /// Most documents per transaction of an import: so many that a sync to disk costs little per document.
    static let importBatchDocuments = 1_000
    /// Text per transaction of an import, about: an operation, which holds stamps too, may have 16 MiB.
    static let importBatchBytes = 4 * 1_048_576
    /// Size of one read of a file.
    static let fileChunkBytes = 256 * 1_024
    /// Longest line or row of a file, and longest value of a JSON text; a document may have 5 MiB.
    static let recordBytes = 64 * 1_048_576
    /// Rows from which a table's delimiter is found out: enough for rows of text with commas to differ.
    static let sampledRows = 50
    /// Rows of equal width below lines of fewer columns that make a table: fewer may be an accident.
    static let likeRows = 3
    /// Columns that a note names.
    static let shownColumns = 5
    /// Different texts without a number in a column of numbers that a note takes for marks of missing values.
    static let namedMarks = 3
    /// Bytes of a text from which its kind is told.
    static let headBytes = 256
    /// Most lists of objects that are remembered below the outer object of a JSON text, for a hint.
    static let listsFound = 10
    /// Deepest list that `--path` can name, in keys; objects below are read whole.
    static let listDepth = 8
    /// Documents that a dry run shows.
    static let shownDocuments = 5
    /// Skipped records that are printed one by one; the others are counted.
    static let shownErrors = 20
    /// Longest piece of a file's text in a message, in characters.
    static let quotedCharacters = 40
    /// Least time between two pictures of the progress bar.
    static let progressPause = Duration.milliseconds(100)
    /// Documents that an export reads at once: several MB of usual documents, 1 GB of the largest.
    static let exportBatchDocuments = 200
    /// Timeout of a statement over HTTP.
    static let requestTimeoutSeconds: Int64 = 120
    /// Longest life of a stream, after which it is opened again: the client library wants a number.
    static let streamSeconds: Int64 = 86_400
    /// Longest silence of a stream: the server says that it is alive every 15 s.
    static let streamSilence = Duration.seconds(60)
    /// How often the silence is looked at.
    static let silenceLook = Duration.seconds(5)
    /// How often a follower looks whether its output is still read: `| head` shall end at once for a person.
    static let readerLook = Duration.milliseconds(500)
    /// First pause before a cut stream is opened again.
    static let reconnectPause = Duration.milliseconds(500)
    /// Longest such pause: a server that comes back is found within it.
    static let longestReconnectPause = Duration.seconds(15)
    /// Largest answer over HTTP.
    static let answerBytes = 1_073_741_824
    /// Timeout of an admin request: a snapshot of a large database takes minutes.
    static let adminTimeoutSeconds: Int64 = 600
    /// Longest wait of `--wait`, in seconds: a projection of some hundred million operations.
    static let adminWaitSeconds = 86_400
    /// Interval of asking how far such work is.
    static let adminLook = Duration.milliseconds(500)
    /// Largest file of an option's value; the server takes less.
    static let adminBodyBytes = 1_048_576
    /// Pause between two signs of a backup that runs: a write to the log each.
    static let backupSign = Duration.seconds(15)
    /// Silence after which a backup counts as killed, in seconds: a log that is slow delays a sign.
    static let backupSilenceSeconds: Int64 = 45
    /// Pause between two looks of a canary for what it waits for: short beside the time that a round may
    /// take.
    static let canaryLook = Duration.milliseconds(50)
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

    /// Tries to lock the note of a running server, and microseconds between two: a client that looks at it
    /// holds the lock for less.
    static let noteLockTries = 20
    /// See `noteLockTries`.
    static let noteLockPause: UInt32 = 20_000
}
