/// The module's limits: name with unit, value, reason.
enum Limits {
    /// How long a login may take: it is one small request, and a dead network should not be waited for.
    static let loginTimeoutSeconds: Int64 = 30
    /// How long a connection for HTTP may take to be made.
    static let connectTimeoutSeconds: Int64 = 10
    /// The largest answer to a login: a token of at most 16 KiB and what a provider has for the application.
    static let loginAnswerBytes = 256 * 1_024
    /// The pause before the expiration handler is asked again after a login that failed; doubles each time.
    static let firstLoginPause = Duration.milliseconds(500)
    /// The longest of those pauses: a server that comes back is found within it.
    static let longestLoginPause = Duration.seconds(15)
    /// A session is renewed when this part of its life is left …
    static let renewalFraction = 0.1
    /// … but at least this long before its end (half its life, where that is shorter), so that a slow login
    /// still comes in time.
    static let renewalLead = Duration.seconds(60)
    /// The documents of an observer's result that are remembered to tell which changes matter to it, 8 bytes
    /// each. Beyond that every change of its collection does.
    static let observedDocuments = 20_000
    /// The rows of an observer's result that are remembered one by one, 16 bytes each, to decode only what
    /// was written since. Of a larger result every row is decoded each time it runs.
    static let printedRows = 4_096
    /// The changes remembered while an observer's query runs; when there are more it runs again.
    static let openDocuments = 1_024
    /// The changed documents that wait to be compared with the observers' conditions; beyond that all
    /// observers of their collections run, which costs less.
    static let routedDocuments = 4_096
    /// What peers are told this device is called: longer names would not fit into an advertisement.
    static let deviceNameBytes = 24
    /// The application's own information about this small peer, as JSON: it travels with every report.
    static let peerMetadataBytes = 128 * 1_024
    /// The application's own information about this peer for other peers, as JSON: it travels with presence.
    static let presenceMetadataBytes = 4_096
    /// How deep either may be nested.
    static let peerMetadataDepth = 64
    /// How long disk usage is left unwatched at least while an observer asks for it …
    static let firstDiskUsagePause = Duration.seconds(1)
    /// … and at most, when nothing changes: walking through a store costs little, but not nothing.
    static let longestDiskUsagePause = Duration.seconds(30)
    /// The refused commits that `system:data_sync_info` names; `DittoSync.refusedCommits` has all.
    static let listedRefusals = 100
    /// The pause before an attachment is asked for, or sent, again after that has failed; doubles each time.
    static let firstTransferPause = Duration.milliseconds(500)
    /// The longest of those pauses: an attachment that was sent by somebody meanwhile is found within it.
    static let longestTransferPause = Duration.seconds(30)
    /// The longest that one attempt may take: the largest attachment over a slow line.
    static let transferTimeoutHours: Int64 = 24
    /// The bytes between two reports of progress at least; of large attachments a hundredth.
    static let progressBytes: Int64 = 65_536
    /// The largest answer to an upload.
    static let uploadAnswerBytes = 16 * 1_024
    /// Lines of the log that wait to be written to its file; more are dropped and counted: a disk that hangs
    /// may not take the application's memory.
    static let waitingLogLines = 10_000
    /// Requests that `system:request_history` remembers unless `dql_request_history_size` says otherwise.
    static let rememberedRequests = 4_096
    /// How many more it may hold before it drops those beyond: dropping one at a time would move all the
    /// others.
    static let requestSlack = 256
    /// How much of a statement's text it remembers, in UTF-8 bytes.
    static let rememberedStatementBytes = 1_024
}
