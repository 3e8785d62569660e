import CRDT
import Exchange

// Messages larger than a frame, and a link that breaks. A message in chunks is named by its checksum, so a
// session that begins says what it has of which message, and the other side goes on behind that: documents
// and operations have one encoding, so they are the same message again, at any instance. Bursts begin small
// with every session and grow as credit comes back, so that a slow link that breaks each few seconds carries
// something whole each time.

/// The received part of a message in chunks; the driver keeps it from one session to the next.
public struct PartialMessage: Sendable {
    /// `hash64` of the whole message.
    public let hash: UInt64
    /// The bytes so far.
    public private(set) var bytes: [UInt8] = []
    /// The number of bytes.
    public var count: Int { bytes.count }

    init(hash: UInt64) { self.hash = hash }

    mutating func append(_ piece: [UInt8]) { bytes.append(contentsOf: piece) }
}

/// A message in chunks that is being put together.
struct Assembly: Sendable {
    private enum State: Sendable {
        /// Nothing has come.
        case empty
        /// A part that an earlier session received; nothing came of it in this one yet.
        case kept
        case receiving
    }

    private var state = State.empty
    private var message = PartialMessage(hash: 0)
    /// See `Session.Configuration.holdingPart`.
    private let holding: (@Sendable (_ bytes: Int) -> Bool)?

    /// Goes on after a part, if one is kept.
    init(kept: PartialMessage? = nil, holding: (@Sendable (_ bytes: Int) -> Bool)? = nil) {
        self.holding = holding
        guard let kept else { return }
        message = kept
        state = .kept
    }

    /// The part that a later session can continue.
    var partial: PartialMessage? { message.count > 0 ? message : nil }

    /// Takes a chunk; returns the message if it was the last.
    mutating func take(
        _ piece: [UInt8], isLast: Bool, of hash: UInt64, at place: UInt64
    ) throws(SyncError) -> [UInt8]? {
        guard isLast || piece.count >= Limits.leastChunkBytes else {
            throw SyncError(.malformedFrame, "a chunk of \(piece.count) bytes that is not the last")
        }
        if message.hash != hash || (state == .kept && place == 0) {
            guard state == .kept || message.count == 0 else {
                throw SyncError(.malformedFrame, "a message begins within another")
            }
            message = PartialMessage(hash: hash)
        }
        guard place == UInt64(message.count) else {
            throw SyncError(.malformedFrame, "a chunk is not for the place behind the one before")
        }
        state = .receiving
        message.append(piece)
        guard message.count <= Limits.messageBytes else {
            throw SyncError(.frameTooLarge, "a message in chunks exceeds \(Limits.messageBytes) bytes")
        }
        guard isLast else {
            try hold()
            return nil
        }
        let bytes = message.bytes
        self = Assembly(holding: holding)
        _ = holding?(0)
        guard hash64(bytes) == hash else {
            throw SyncError(.malformedFrame, "a message in chunks is not the one that was named")
        }
        return bytes
    }

    /// Holds the memory of a long part, in steps.
    private func hold() throws(SyncError) {
        let steps = message.count / Limits.heldPartBytes
        guard holding?(steps * Limits.heldPartBytes) ?? true else {
            throw SyncError(
                .unavailable,
                "the large messages of this credential take as much memory as they may; connect again")
        }
    }
}
