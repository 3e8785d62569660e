import CRDT
import Exchange

// Messages larger than a frame, and a link that breaks. A message in chunks is named by its checksum, so a
// session that begins says what it has of which message, and the other side goes on behind that: documents
// and operations have one encoding, so they are the same message again, at any instance. What is sent begins
// small with every session and grows as credit comes back, so that a slow link that breaks each few seconds
// carries something whole each time.

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

/// A message that is being put together.
struct Assembly: Sendable {
    /// Its chunks; named in version 3, where it is not one of an earlier session that nothing came of yet.
    var message = PartialMessage(hash: 0)
    var isNamed = false
    var isKept = false
}

extension Session {
    /// The part that a later session can continue.
    public var partial: PartialMessage? {
        assembly.isNamed && assembly.message.count > 0 ? assembly.message : nil
    }

    /// What one side has of a message, in a hello.
    var keptPlace: Frame.Kept? { partial.map { Frame.Kept(hash: $0.hash, count: UInt64($0.count)) } }

    /// Takes a chunk; the message when it was the last.
    mutating func take(
        _ piece: [UInt8], isLast: Bool, of hash: UInt64?, at place: UInt64
    ) throws(SyncError) -> [UInt8]? {
        guard phase == .open else { throw unexpected("a chunk") }
        guard isLast || piece.count >= Limits.leastChunkBytes else {
            throw SyncError(.malformedFrame, "a chunk of \(piece.count) bytes that is not the last")
        }
        let isSame = assembly.isNamed == (hash != nil) && assembly.message.hash == hash ?? 0
        if !isSame || (assembly.isKept && place == 0) {
            guard assembly.isKept || assembly.message.count == 0 else {
                throw SyncError(.malformedFrame, "a message begins within another")
            }
            assembly = Assembly(message: PartialMessage(hash: hash ?? 0), isNamed: hash != nil)
        }
        guard hash == nil || place == UInt64(assembly.message.count) else {
            throw SyncError(.malformedFrame, "a chunk is not for the place behind the one before")
        }
        assembly.isKept = false
        assembly.message.append(piece)
        guard assembly.message.count <= Limits.messageBytes else {
            throw SyncError(.frameTooLarge, "a message in chunks exceeds \(Limits.messageBytes) bytes")
        }
        guard isLast else { return nil }
        let message = assembly.message.bytes
        assembly = Assembly()
        guard hash == nil || hash64(message) == hash else {
            throw SyncError(.malformedFrame, "a message in chunks is not the one that was named")
        }
        return message
    }

    /// Hands a message to the transport, in chunks where it is too large for one frame.
    mutating func divide(_ bytes: [UInt8]) {
        let isSlow = version >= 3 && burst < configuration.batchBytes
        guard phase == .open, bytes.count > (isSlow ? 2 * burst : Limits.frameBytes) else {
            return actions.append(.send(bytes))
        }
        let size = isSlow ? burst : Limits.chunkBytes
        let name = version >= 3 ? hash64(bytes) : nil
        var place = 0
        if let theirs = theirKept, theirs.hash == name, theirs.count < UInt64(bytes.count) {
            place = Int(theirs.count)
        }
        // At the first chunk of another message they let go of what they have kept.
        theirKept = nil
        while place < bytes.count {
            let end = min(place + size, bytes.count)
            let chunk = Frame.chunk(
                isLast: end == bytes.count, Array(bytes[place..<end]), of: name, at: UInt64(place))
            actions.append(.send(chunk.encoded()))
            place = end
        }
    }

    /// About how many bytes are read for one message now.
    var readBytes: Int { min(burst, configuration.batchBytes) }

    /// The other side has stored something: more at a time from now on.
    mutating func grow() { burst = min(2 * burst, max(burst, configuration.batchBytes)) }
}
