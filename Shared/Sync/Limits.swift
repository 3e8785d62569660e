/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// Writes that a peer's own grant forbids and that one repair sets aside; about 200 bytes each.
    static let refusalsAtOnce = 4_096
    /// The protocol version that a server and a peer without links speak; no earlier one was released
    /// (decision 0170).
    public static let protocolVersion: UInt64 = 3
    /// The version that small peers speak with each other, and a peer with links with its server; no earlier
    /// one has links.
    public static let meshVersion: UInt64 = 4
    /// The most bytes of frames that the other peer may send before this side has met it: its subscriptions,
    /// and what its first credit covers.
    static let earlyBytes = messageBytes
    /// Documents of which a session of two small peers remembers the version that the other side has: some
    /// megabytes, mostly 200 bytes each.
    static let knownVersions = 16_384
    /// Actors of such a version; one of more is not remembered.
    static let knownActors = 64
    /// Documents that one frame of the live stream names as changed; the next frame names the others.
    static let candidatesPerFrame = 4_096
    /// The most bytes one frame may have. Larger messages travel in chunks, so that one document blocks a
    /// link briefly.
    public static let frameBytes = 1_048_576
    /// The payload of one chunk; leaves room for the frame around it.
    public static let chunkBytes = 786_432
    /// The fewest bytes of a chunk that is not the last: many small ones cost more than they save.
    public static let leastChunkBytes = 4_096
    /// The most bytes of a message assembled from chunks: an operation, or a document of the hard limit.
    public static let messageBytes = 20 * 1_048_576
    /// Bytes of a message in chunks whose memory belongs to the session, and the step in which it grows; what
    /// is less comes from slow links, of many sessions at a time.
    static let heldPartBytes = 262_144
    /// Bytes of data frames that a side may send before the other has stored them and returned credit.
    public static let creditBytes = 4 * 1_048_576
    /// Approximate size of a data frame at which the next one is begun.
    public static let batchBytes = 262_144
    /// Approximate size of a session's first messages, and of the chunks of larger ones: the bytes that a
    /// link of 20 KB/s carries in two seconds. Grows with each returned credit.
    public static let firstBurstBytes = 32_768
    /// Approximate bytes of waiting messages stored, or appended, in one transaction: a part of the credit,
    /// so that more arrives while the disk is busy.
    public static let joinedBytes = 1_048_576
    /// Approximate bytes of waiting uploads handed to the log at a time: half of the credit, so that as
    /// much arrives meanwhile. A server divides it, and checks one part while it appends another.
    public static let appendedBytes = 2 * 1_048_576
    /// Subscriptions in one session.
    public static let subscriptions = 1_024
    /// The most encoded bytes of one session's subscriptions: their arguments may be large, and need no
    /// credit.
    public static let subscriptionBytes = messageBytes
    /// Bytes of a subscription, as a frame, whose memory belongs to the session; a longer one is parsed in a
    /// turn.
    static let briefSubscriptionBytes = 4_096
    /// The memory of a parsed statement, in times of its text.
    static let statementWeight = 64
    /// Documents in one `want`.
    public static let wantedDocuments = 1_024
    /// Approximate bytes of document keys, and again of vectors, in a `want`: some seconds of a link of 20
    /// KB/s, because none of it needs credit.
    public static let wantBytes = 65_536
    /// The most bytes of wants that may wait for an answer.
    public static let wantedWaitingBytes = 2 * 1_048_576
    /// Wanted documents that may wait for their states; our own peers have one `want` under way at a time.
    public static let wantedWaitingDocuments = 4_096
    /// The most bytes of frames that may wait in a session for the other side's credit: an upload, a page
    /// and a run of the live stream, each with a message of the largest size.
    public static let waitingBytes = 4 * messageBytes
    /// Approximate bytes of states that answer one `want`; its sender asks again for the rest. Bounds the
    /// work that a single request can cause.
    public static let answerBytes = 8 * 1_048_576
    /// Positions up to which answers were passed over that may wait to be stored.
    static let skippedPositions = 64
    /// The most bytes of a token that one side stores for the other.
    public static let tokenBytes = 8_192
    /// The most bytes of a peer's access token, which is also Identity's limit.
    public static let accessTokenBytes = 16_384
    /// Documents in one page of holdings, and so in one request for their states.
    public static let heldDocuments = 1_024
    /// Bytes of the states that a server collects before it appends them as one operation, and that a peer
    /// with links keeps of one list: a transaction that is larger appears in parts at the server.
    public static let givenBytes = 4 * 1_048_576
    /// How often in a row an operation is uploaded whose base the server lacks, each time after its documents
    /// were given. Then it waits for news of links, or for the next session.
    static let roundsDeferred = 2
    /// Stopped actors in one session: the server refused an operation of each and accepts nothing more of
    /// them. An honest peer has one at a time.
    public static let stoppedActors = 1_024
    /// How often a peer moves writes whose base the server lacks before it sets them aside. Each time they
    /// depend on documents that the server had a moment before, so only a reaping or a restored log can be
    /// the cause.
    public static let roundsForBase = 8
    /// Checksums of operations in a server's greeting; eight bytes each, within a frame.
    public static let greetingHashes = 16_384
    /// Documents whose states are read at a time, so that few large ones are in memory at once.
    public static let statesPerRead = 16
    /// The most bytes of updates sent as one transaction of the live stream; a larger one travels as a
    /// catch-up, whose pages can be divided.
    public static let transactionBytes = 16 * 1_048_576

    // MARK: Presence

    /// The most bytes of a presence record: metadata, and links with dozens of peers.
    public static let presenceRecordBytes = 8_192
    /// The most bytes of an application's metadata in a record, as JSON.
    public static let presenceMetadataBytes = 4_096
    /// The most bytes of a device's name.
    static let presenceNameBytes = 24
    /// The most bytes of an operating system's name and of a version.
    static let presenceWordBytes = 64
    /// Links that a record names: what fits beside the metadata.
    static let presenceLinks = 70
    /// Peers in a graph, and so in digests; the nearest count.
    public static let presencePeers = 256
    /// Records that a peer holds, reachable or not; some megabytes at most.
    static let presenceRecords = 512
    /// The shortest time between two records of a peer, which collects its changes.
    static let presencePace = Duration.milliseconds(200)
    /// The time for which news to a link are collected.
    static let presenceCollecting = Duration.milliseconds(50)
    /// The time for which an ended record is remembered, so that no copy of it comes back.
    static let presenceMemory = Duration.seconds(600)
    /// The shortest time between two starts that a peer skips because others know a later one of it.
    static let presenceJump = Duration.seconds(10)
    /// Approximate bytes of records in one frame, which travels between documents.
    static let presenceFrameBytes = 65_536
    /// Signatures of one link that are checked at once, and each second after that: about a hundredth of a
    /// core.
    static let presenceChecks = (burst: 1_024, eachSecond: 100)
    /// Bytes of a certificate, its metadata included.
    static let certificateBytes = 16 * 1_024
    /// Certificates of others, each with a metadata of its own, that a peer keeps.
    static let presenceCertificates = 256
    /// The pause before a certificate is asked for again.
    static let presenceCertificatePause = Duration.seconds(10)
    /// Peers of which one session tells a server, beside its own.
    public static let presenceOfSession = 256
    /// The time between two looks of a server for records that have ended, while others come.
    static let presenceLook = Duration.seconds(1)
    /// Peers without a session of which a server keeps records, in a database.
    static let presenceOfDatabase = 4_096
}
