import CRDT
import Sync

/// Puts large messages together out of the frames that carry their parts, so that they can be checked as a
/// whole. A part may come on another connection than the one before: the message has the same name there.
struct Messages {
    private var parts: [UInt64: [UInt8]] = [:]

    /// The message that a frame completes; nil while there is more to come.
    mutating func take(_ frame: [UInt8]) throws -> [UInt8]? {
        // Its type says whether it is one, in the third byte.
        guard frame.count > 2, frame[1] == 0, frame[2] == 13 else { return frame }
        guard case .chunk(let isLast, let piece, let hash, let place) = try Frame(decoding: frame) else {
            return frame
        }
        let known = parts[hash] ?? []
        guard place <= UInt64(known.count) else {
            throw Violation("a message goes on at \(place), and \(known.count) bytes of it were sent")
        }
        let message = Array(known.prefix(Int(place)) + piece)
        // What was sent before may have come although what is sent of it again is behind.
        if message.count > known.count { parts[hash] = message }
        guard isLast else { return nil }
        guard hash64(message) == hash else { throw Violation("a message is not what its name says") }
        return message
    }
}
