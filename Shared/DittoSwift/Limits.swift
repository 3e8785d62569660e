/// The module's limits: name with unit, value, reason.
enum Limits {
    /// The timeout of a login: one small request, and nobody should wait long for a dead network.
    static let loginTimeoutSeconds: Int64 = 30
    /// The timeout of connecting for HTTP.
    static let connectTimeoutSeconds: Int64 = 10
    /// The largest answer to a login: a token of at most 16 KiB and the provider's information.
    static let loginAnswerBytes = 256 * 1_024
    /// The pause before the expiration handler is called again after a failed login; doubles each time.
    static let firstLoginPause = Duration.milliseconds(500)
    /// The longest of these pauses: a server that returns is found within it.
    static let longestLoginPause = Duration.seconds(15)
    /// A session is renewed when this fraction of its life is left …
    static let renewalFraction = 0.1
    /// … but at least this long before its end (half its life, if that is shorter), so that a slow login
    /// still completes in time.
    static let renewalLead = Duration.seconds(60)
    /// The time that the first handlers wait for the main queue to be served before they are called on a
    /// queue of the SDK: long enough for a program that registers first and runs its main loop then.
    static let mainQueuePatience = Duration.milliseconds(500)
    /// The documents of an observer's result that are remembered to tell which changes matter to it, 8 bytes
    /// each. With more, every change of its collection matters.
    static let observedDocuments = 20_000
    /// The rows of an observer's result that are remembered one by one, 16 bytes each, so that only rows
    /// written since are decoded. With more, each run decodes every row.
    static let printedRows = 4_096
    /// The changes remembered while an observer's query runs; with more, the query runs again.
    static let openDocuments = 1_024
    /// The changed documents that wait to be compared with the observers' conditions. With more, all
    /// observers of their collections run, which costs less.
    static let routedDocuments = 4_096
    /// The longest device name that is sent to peers: a longer one would not fit into an advertisement.
    static let deviceNameBytes = 24
    /// The application's metadata about this small peer, as JSON: it travels with every report.
    static let peerMetadataBytes = 128 * 1_024
    /// The application's metadata about this peer for other peers, as JSON: it travels with presence.
    static let presenceMetadataBytes = 4_096
    /// How deep either may be nested.
    static let peerMetadataDepth = 64
    /// The shortest interval of looking at disk usage while an observer is registered …
    static let firstDiskUsagePause = Duration.seconds(1)
    /// … and the longest, when nothing changes: walking through a store costs little, but not nothing.
    static let longestDiskUsagePause = Duration.seconds(30)
    /// The number of refused commits in `system:data_sync_info`; `DittoSync.refusedCommits` has all.
    static let listedRefusals = 100
    /// The pause before a failed fetch or upload of an attachment is retried; doubles each time.
    static let firstTransferPause = Duration.milliseconds(500)
    /// The longest of these pauses: an attachment that another peer uploads is found within it.
    static let longestTransferPause = Duration.seconds(30)
    /// The longest single attempt: the largest attachment over a slow line.
    static let transferTimeoutSeconds: Int64 = 24 * 3_600
    /// The fewest bytes between two reports of progress; for large attachments it is a hundredth of them.
    static let progressBytes: Int64 = 65_536
    /// The time without a byte after which a fetch tells that nobody has the attachment.
    static let fetchPatience = Duration.seconds(30)
    /// The attachments that wait to be fetched without a fetcher; further ones are found at the next start.
    static let wantedAttachments = 10_000
    /// The downloads without a fetcher that run at the same time.
    static let automaticDownloads = 4
    /// The pieces of an attachment that a linked peer is asked for at a time: 256 KiB on the way.
    static let piecesAtOnce = 4
    /// The questions of linked peers whose answer is remembered, some 200 bytes each.
    static let knownShares = 1_024
    /// The time for which it is remembered that a peer may have an attachment, since all documents are read
    /// to know it; and that it may not, since its document may come at any time.
    static let shareMemory = Duration.seconds(10)
    static let refusalMemory = Duration.seconds(1)
    /// The time for which it is remembered that a document mentions an attachment for which a download waits,
    /// and between two looks: all documents are read to know it.
    static let mentionMemory = Duration.seconds(5)
    /// The ended transfers whose last steps a new one waits for.
    static let endingTransfers = 64
    /// The largest list of hashes of chunks: 5 GiB have 5,120 chunks of 46 characters each.
    static let chunkListBytes = 1 << 20
    /// The time for which an attachment stays that no document mentions, in seconds: a day, in which an
    /// application may write the document of an attachment that it has made.
    static let attachmentGraceSeconds: Int64 = 24 * 3_600
    /// The time for which the received part of an attachment stays, in seconds: a week.
    static let partialDownloadSeconds: Int64 = 7 * 24 * 3_600
    /// The largest answer to an upload.
    static let uploadAnswerBytes = 16 * 1_024
    /// The log lines that wait to be written to a file; more are dropped and counted. A disk that hangs must
    /// not consume the application's memory.
    static let waitingLogLines = 10_000
    /// Requests that `system:request_history` remembers unless `dql_request_history_size` says otherwise.
    static let rememberedRequests = 4_096
    /// Requests kept above that number before the excess is dropped: dropping one at a time would move all
    /// the others.
    static let requestSlack = 256
    /// UTF-8 bytes kept of a statement's text.
    static let rememberedStatementBytes = 1_024
    /// A collection's name in the 4.x API has fewer characters than this, as in the original.
    static let legacyNameCharacters = 100
    /// The time after which an error that a call of the 4.x API cannot throw is logged again: a loop that
    /// fails must not fill the log.
    static let unthrownErrorPause = Duration.seconds(1)
}
