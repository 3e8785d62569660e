/// The module's limits: name with unit, value, reason.
public enum Limits {
    /// Writes that a peer's own grant forbids and that one repair sets aside; about 200 bytes each.
    static let refusalsAtOnce = 4_096
    /// The protocol version this build speaks.
    public static let protocolVersion: UInt64 = 3
    /// The oldest protocol version it still understands; with one that speaks it nothing newer is said.
    public static let oldestProtocolVersion: UInt64 = 2
    /// The most bytes one frame may have. Larger messages travel in chunks, so that one document blocks a
    /// link briefly.
    public static let frameBytes = 1_048_576
    /// The payload of one chunk; leaves room for the frame around it.
    public static let chunkBytes = 786_432
    /// The fewest bytes of a chunk that is not the last: many small ones cost more than they bring.
    public static let leastChunkBytes = 4_096
    /// The most bytes a message put together from chunks may have: an operation, or a document of the hard
    /// limit.
    public static let messageBytes = 20 * 1_048_576
    /// How many bytes of data frames a side may send before the other has stored them and given credit back.
    public static let creditBytes = 4 * 1_048_576
    /// About how large a data frame becomes before the next one is begun.
    public static let batchBytes = 262_144
    /// About how large a session's first messages are, and the chunks of those that are larger: what a link
    /// of 20 KB/s carries in two seconds. Grows with each credit that comes back.
    public static let firstBurstBytes = 32_768
    /// About how many bytes of what waits are stored, or appended, in one transaction: a part of the credit,
    /// so that more comes while the disk is waited for.
    public static let joinedBytes = 1_048_576
    /// About how many bytes of uploads that wait are handed to the log at a time: half of the credit, so that
    /// as much comes meanwhile. A server divides it, and judges one part while it appends another.
    public static let appendedBytes = 2 * 1_048_576
    /// Subscriptions one session may hold.
    public static let subscriptions = 1_024
    /// The most bytes of the subscriptions that one session holds, as they came: their arguments may be
    /// large, and cost no credit.
    public static let subscriptionBytes = messageBytes
    /// Documents one `want` may name.
    public static let wantedDocuments = 1_024
    /// About half of the bytes that a `want` names documents with, and their vectors: what a link of 20 KB/s
    /// carries in some seconds, since nothing of it takes credit.
    public static let wantBytes = 65_536
    /// The most bytes of that which may wait for an answer.
    public static let wantedWaitingBytes = 2 * 1_048_576
    /// Documents wanted in all that may wait for their states; ours has one `want` under way at a time.
    public static let wantedWaitingDocuments = 4_096
    /// The most bytes of frames that may wait in a session for the other side's credit: an upload, a page and
    /// a run of the live stream, each with a message of the largest size in it.
    public static let waitingBytes = 4 * messageBytes
    /// About how many bytes of states answer one `want`; for the rest its sender asks again. Bounds what one
    /// side asks for unseen.
    public static let answerBytes = 8 * 1_048_576
    /// Positions up to which answers were passed over that may wait to be stored.
    static let skippedPositions = 64
    /// The most bytes of a token that one side keeps for the other.
    public static let tokenBytes = 8_192
    /// The most bytes of an access token that a peer may send: what Identity reads of one.
    public static let accessTokenBytes = 16_384
    /// Documents one page of holdings may name: what the answer to it may ask for.
    public static let heldDocuments = 1_024
    /// Actors of which a server takes nothing more in one session, having refused an operation of each. An
    /// honest peer has one at a time.
    public static let stoppedActors = 1_024
    /// How often a peer moves writes whose base the server lacks, before it sets them aside: each time they
    /// rest on what the server had a moment before, so only a reaping or a restored log can be the cause.
    public static let roundsForBase = 8
    /// Checksums of operations that one greeting of a server may name; eight bytes each, within a frame.
    public static let greetingHashes = 16_384
    /// Documents whose states are read at a time, so that few large ones are in memory at once.
    public static let statesPerRead = 16
    /// The most bytes of updates sent as one transaction of the live stream; a larger one travels as a
    /// catch-up, whose pages can be divided.
    public static let transactionBytes = 16 * 1_048_576
}
