import CRDT
import OperationLog

// The form of a backup's data files: eight bytes "MimeoBk1", then frames. A frame is its length (4 bytes,
// big-endian), a tag byte and a content:
//
//   01  key       actor (8 bytes), author key (UTF-8): before the actor's first operation in the file
//   02  entry     actor, sequence, timestamp, chain hash (8 bytes each), the encoded operation
//   03  chunk     a chunk of the log's snapshot, as the log has it
//   FF  end       the number of frames before it (8 bytes)

/// One frame of a data file.
enum Frame: Equatable {
    case key(ActorID, String)
    case entry(OperationRecord, hash: UInt64)
    case chunk([UInt8])
    case end(UInt64)

    static let magic = Array("MimeoBk1".utf8)

    fileprivate var content: [UInt8] {
        switch self {
        case .key(let actor, let key): [1] + Self.fixed(actor.rawValue) + Array(key.utf8)
        case .entry(let record, let hash):
            [2] + Self.fixed(record.actor.rawValue) + Self.fixed(record.sequence.rawValue)
                + Self.fixed(record.timestamp) + Self.fixed(hash) + record.bytes
        case .chunk(let bytes): [3] + bytes
        case .end(let count): [0xFF] + Self.fixed(count)
        }
    }

    /// Nil for bytes that are no frame.
    fileprivate init?(_ bytes: ArraySlice<UInt8>) {
        guard let tag = bytes.first else { return nil }
        let rest = bytes.dropFirst()
        switch tag {
        case 1 where rest.count >= 8:
            guard let key = String(validating: rest.dropFirst(8), as: UTF8.self) else { return nil }
            self = .key(ActorID(Self.number(rest, 0)), key)
        case 2 where rest.count > 32:
            self = .entry(
                OperationRecord(
                    actor: ActorID(Self.number(rest, 0)), sequence: SequenceNumber(Self.number(rest, 1)),
                    timestamp: Self.number(rest, 2), bytes: Array(rest.dropFirst(32))),
                hash: Self.number(rest, 3))
        case 3 where !rest.isEmpty: self = .chunk(Array(rest))
        case 0xFF where rest.count == 8: self = .end(Self.number(rest, 0))
        default: return nil
        }
    }

    private static func fixed(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>, _ place: Int) -> UInt64 {
        let start = bytes.startIndex + 8 * place
        return bytes[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// Writes the frames of one data file.
final class FrameWriter {
    private let file: OutputFile
    private let name: String
    private var count: UInt64 = 0

    init(folder: String, name: String) throws(BackupError) {
        self.name = name
        file = try OutputFile("\(folder)/\(name)")
        try file.write(Frame.magic)
    }

    func put(_ frame: Frame) throws(BackupError) {
        let content = frame.content
        precondition(content.count <= Limits.frameBytes, "a frame is too long to be read again")
        try file.write(withUnsafeBytes(of: UInt32(content.count).bigEndian) { Array($0) })
        try file.write(content)
        count += 1
    }

    /// Ends the file durably.
    func finish() throws(BackupError) -> FileRecord {
        try put(.end(count))
        let digest = try file.finish()
        return FileRecord(name: name, bytes: file.bytes, sha256: digest)
    }
}

/// Reads the frames of one data file, and compares its size and digest at its end.
final class FrameReader {
    private let file: InputFile
    private let record: FileRecord
    private var buffer: ArraySlice<UInt8> = []
    private var bytes: Int64 = 0
    private var count: UInt64 = 0
    private var isAtEnd = false

    /// - Throws: `BAK-0202`, `BAK-0203`.
    init(folder: String, _ record: FileRecord) throws(BackupError) {
        self.record = record
        file = try InputFile("\(folder)/\(record.name)")
        guard try fill(Frame.magic.count) else { throw .damaged(file.path, "is cut short") }
        let magic = Array(buffer.prefix(Frame.magic.count))
        guard magic == Frame.magic else {
            throw magic.prefix(7) == Frame.magic.prefix(7)
                ? BackupError(.newerFormat, "\(file.path) was written by a newer version")
                : .damaged(file.path, "is no file of a backup")
        }
        buffer = buffer.dropFirst(Frame.magic.count)
    }

    /// The next frame; nil after the last one, once the whole file is what the manifest says.
    func next() throws(BackupError) -> Frame? {
        guard !isAtEnd else { return nil }
        guard try fill(4) else { throw .damaged(file.path, "is cut short") }
        let length = buffer.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        guard length > 0, length <= Limits.frameBytes else { throw .damaged(file.path, "is altered") }
        guard try fill(4 + length) else { throw .damaged(file.path, "is cut short") }
        let content = buffer.dropFirst(4).prefix(length)
        guard let frame = Frame(content) else { throw .damaged(file.path, "is altered") }
        buffer = buffer.dropFirst(4 + length)
        guard case .end(let total) = frame else {
            count += 1
            return frame
        }
        isAtEnd = true
        guard total == count, buffer.isEmpty, try file.read() == nil, bytes == record.bytes,
            file.digestText == record.sha256
        else { throw .damaged(file.path, "is not the file that the manifest names") }
        return nil
    }

    /// Makes the buffer at least so long; false at the file's end.
    private func fill(_ count: Int) throws(BackupError) -> Bool {
        while buffer.count < count {
            guard let part = try file.read() else { return false }
            bytes += Int64(part.count)
            buffer = buffer + part
        }
        return true
    }
}
