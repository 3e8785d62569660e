import CRDT

/// A question of a linked peer about a blob.
public struct BlobAsk: Sendable, Equatable {
    /// The subject of a question.
    public enum Subject: Sendable, Equatable {
        /// So many bytes from an offset on; fewer at the end of the blob.
        case bytes(offset: UInt64, count: Int)
        /// The hashes of its chunks.
        case chunks
    }

    /// The SHA-256 that is the blob's name.
    public var digest: [UInt8]
    /// The subject.
    public var subject: Subject
}

/// The answer to a question about a blob.
public enum BlobAnswer: Sendable, Equatable {
    /// The bytes.
    case bytes([UInt8])
    /// The blob's length and the SHA-256 of each of its chunks, one after the other.
    case chunks(length: UInt64, digests: [UInt8])
    /// No answer.
    case none(BlobRefusal)
}

/// The reason why a question about a blob has no answer.
public enum BlobRefusal: UInt64, Sendable {
    /// The peer does not have the blob, or the asker may read no document that mentions it: it is told the
    /// same.
    case missing = 1
    /// The peer has enough to do, or is fetching the blob itself. Ask again later.
    case busy = 2
    /// The peer cannot read its disk.
    case unusable = 3
    /// The link has ended, or the peer is silent. Never sent.
    case unreachable = 4
    /// The peer sent another answer than was asked for. Never sent.
    case wrong = 5
}

/// The messages about blobs that a link carries beside a session's frames: CBOR maps like these, with types
/// that no frame of a session has.
///
/// ```
/// ask    = { 0: 64, 1: id, 2: bstr .size 32, ? 3: uint, ? 4: uint } ; blob, offset, count; else: chunks
/// bytes  = { 0: 65, 1: id, 5: bstr }          ; as many as were asked for, or up to the end
/// chunks = { 0: 66, 1: id, 3: uint, 5: bstr } ; the blob's length, 32 bytes for each MiB
/// none   = { 0: 67, 1: id, 6: uint }          ; 1 missing, 2 busy, 3 unusable
/// ```
/// An id is the asker's, and comes back with the answer. A message that does not decode is dropped.
enum BlobFrame: Equatable {
    case ask(UInt64, BlobAsk)
    case answer(UInt64, BlobAnswer)

    private static let types: ClosedRange<UInt8> = 64...67

    /// Returns whether bytes are such a message, by their beginning: a map, 0, its type.
    static func isOne(_ bytes: [UInt8]) -> Bool {
        bytes.count > 3 && bytes[0] >> 5 == 5 && bytes[1] == 0 && bytes[2] == 0x18
            && types.contains(bytes[3])
    }

    var encoded: [UInt8] {
        var writer = CBORWriter()
        func begin(_ type: UInt64, _ id: UInt64, fields: Int) {
            writer.map(count: fields + 2)
            for number in [0, type, 1, id] { writer.unsigned(number) }
        }
        switch self {
        case .ask(let id, let ask):
            if case .bytes(let offset, let count) = ask.subject {
                begin(64, id, fields: 3)
                writer.unsigned(2)
                writer.binary(ask.digest)
                for number in [3, offset, 4, UInt64(count)] { writer.unsigned(number) }
            } else {
                begin(64, id, fields: 1)
                writer.unsigned(2)
                writer.binary(ask.digest)
            }
        case .answer(let id, .bytes(let bytes)):
            writer.reserve(bytes.count + 24)
            begin(65, id, fields: 1)
            writer.unsigned(5)
            writer.binary(bytes)
        case .answer(let id, .chunks(let length, let digests)):
            begin(66, id, fields: 2)
            for number in [3, length, 5] { writer.unsigned(number) }
            writer.binary(digests)
        case .answer(let id, .none(let refusal)):
            begin(67, id, fields: 1)
            for number in [6, refusal.rawValue] { writer.unsigned(number) }
        }
        return writer.bytes
    }

    /// Nil for bytes that are no such message.
    init?(_ bytes: [UInt8]) {
        guard let frame = bytes.withUnsafeBytes({ raw in try? Self.read(raw) }) else { return nil }
        self = frame
    }

    private struct Malformed: Error {}

    private static func read(_ raw: UnsafeRawBufferPointer) throws -> BlobFrame {
        var decoder = CBORDecoder(raw)
        var numbers: [UInt64: UInt64] = [:]
        var binaries: [UInt64: [UInt8]] = [:]
        for _ in 0..<(try decoder.map()) {
            let key = try decoder.unsigned()
            switch key {
            case 2, 5: binaries[key] = try decoder.binary()
            case 0, 1, 3, 4, 6: numbers[key] = try decoder.unsigned()
            default: _ = try decoder.value()
            }
        }
        guard decoder.isAtEnd, let id = numbers[1] else { throw Malformed() }
        switch numbers[0] {
        case 64:
            guard let digest = binaries[2], digest.count == 32 else { throw Malformed() }
            guard let offset = numbers[3] else {
                return .ask(id, BlobAsk(digest: digest, subject: .chunks))
            }
            guard let count = numbers[4], count <= UInt64(Limits.blobPieceBytes) else { throw Malformed() }
            return .ask(id, BlobAsk(digest: digest, subject: .bytes(offset: offset, count: Int(count))))
        case 65:
            guard let bytes = binaries[5] else { throw Malformed() }
            return .answer(id, .bytes(bytes))
        case 66:
            guard let length = numbers[3], let digests = binaries[5] else { throw Malformed() }
            return .answer(id, .chunks(length: length, digests: digests))
        case 67:
            // A reason that a later version has is a reason to go elsewhere.
            let refusal = numbers[6].flatMap(BlobRefusal.init) ?? .missing
            return .answer(id, .none(refusal))
        default: throw Malformed()
        }
    }
}
