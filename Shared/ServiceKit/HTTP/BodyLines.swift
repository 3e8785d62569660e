import CRDT
import DQL
import Hummingbird
import NIOCore

/// The lines of a body, read in groups as they arrive. However long the body is, one group is in memory, and
/// the piece that arrived last: their memory belongs to an account. While nobody asks for the next group, the
/// client has to wait with what follows.
///
/// A blank line counts as a line and says nothing. The last one needs no line break.
public struct BodyLines {
    /// The size of a group and of a line.
    public struct Bounds: Sendable {
        /// Lines after which a group is whole.
        public let lines: Int
        /// Bytes after which it is.
        public let bytes: Int
        /// Most bytes of one line.
        public let lineBytes: Int

        /// Groups and lines of this size.
        public init(lines: Int, bytes: Int, lineBytes: Int) {
            (self.lines, self.bytes, self.lineBytes) = (lines, bytes, lineBytes)
        }
    }

    /// A line and its object.
    public struct Line: Sendable {
        /// Its number, from 1.
        public let number: Int
        /// Its object.
        public let value: Value
    }

    /// Lines that stand one after the other.
    public struct Group: Sendable {
        /// The number of its last line, from 1.
        public fileprivate(set) var last: Int
        fileprivate var lines: [(number: Int, bytes: [UInt8])] = []
        fileprivate var bytes = 0
    }

    private enum Step {
        case line([UInt8])
        case nothingYet
        case tooLong
        case end
    }

    private let bounds: Bounds
    private let hold: ClientHold
    private var body: RequestBody.AsyncIterator
    private var rest = ByteBuffer()
    /// Bytes at the beginning of `rest` that have no line break.
    private var searched = 0
    private var hasEnded = false
    /// The number of lines that were taken.
    private var count = 0

    /// The lines of a request's body, which may be packed.
    /// - Throws: `SRV-0415`.
    public init(_ request: Request, for account: Account, _ bounds: Bounds) throws {
        self.bounds = bounds
        hold = ClientHold(account)
        body = try request.unpacked().body.makeAsyncIterator()
    }

    /// The next lines; nil after the last one.
    /// - Throws: `LineFailure` with `SRV-0413` for a line that is too long, after those before it;
    ///   `SRV-0400` and `SRV-0413` for a packed body; `SRV-0430`, `SRV-0503`; errors of the connection.
    public mutating func next() async throws -> Group? {
        let before = count
        var group = Group(last: before)
        loop: while group.lines.count < bounds.lines, group.bytes < bounds.bytes {
            switch step() {
            case .line(let bytes):
                count += 1
                group.last = count
                group.bytes += bytes.count + 1
                if !bytes.allSatisfy(Self.isBlank) { group.lines.append((count, bytes)) }
            case .nothingYet: try await receive(holding: group.bytes)
            case .tooLong where count > before: break loop
            case .tooLong:
                throw LineFailure(
                    line: count + 1,
                    error: ServiceError(.bodyTooLarge, "the line is larger than \(bounds.lineBytes) bytes"))
            case .end: break loop
            }
        }
        return count > before ? group : nil
    }

    private mutating func step() -> Step {
        let view = rest.readableBytesView
        let end = view.dropFirst(searched).firstIndex(of: UInt8(ascii: "\n"))
        let length = end.map { view.distance(from: view.startIndex, to: $0) } ?? view.count
        guard length <= bounds.lineBytes else { return .tooLong }
        guard end != nil || hasEnded else {
            searched = length
            return .nothingYet
        }
        searched = 0
        guard end != nil || length > 0 else { return .end }
        let line = rest.readBytes(length: length) ?? []
        if end != nil { rest.moveReaderIndex(forwardBy: 1) }
        return .line(line)
    }

    private mutating func receive(holding bytes: Int) async throws {
        guard var piece = try await body.next() else {
            hasEnded = true
            return
        }
        // A growing buffer doubles its room.
        let needed = bytes + 2 * (rest.readableBytes + piece.readableBytes)
        if needed > max(hold.bytes, Limits.briefBodyBytes) { try hold.grow(to: needed) }
        rest.discardReadBytes()
        rest.writeBuffer(&piece)
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }
}

/// The error of one line of a body.
public struct LineFailure: Error {
    /// The line's number, from 1.
    public let line: Int
    /// Its error.
    public let error: any Error

    /// The error of a line.
    public init(line: Int, error: any Error) { (self.line, self.error) = (line, error) }
}

extension BodyLines.Group {
    /// Reads its objects in a turn of an evaluation, which holds their memory.
    /// - Returns: the objects before the first line that is none, and the error of that line:
    ///   `RequestObject.Malformed`, `SRV-0412`.
    /// - Throws: `cancelled` and `timeout` when the evaluation ends; `SRV-0430`, `SRV-0503`.
    public func objects(
        in evaluation: Evaluation
    ) async throws -> (lines: [BodyLines.Line], failure: LineFailure?) {
        try await evaluation.run {
            try evaluation.held.grow(by: Limits.readBodyWeight * bytes)
            var (read, failure) = ([BodyLines.Line](), LineFailure?.none)
            for (number, bytes) in lines {
                // Fewer values than are counted together would be held by nobody.
                try evaluation.held.grow(by: Self.fewValues(bytes) * Limits.valueBytes)
                do {
                    let value = try evaluation.reading { (bounds) throws(RequestObject.Malformed) in
                        try RequestObject.value(ofJSON: bytes, within: bounds)
                    }
                    guard case .object = value else {
                        throw RequestObject.Malformed(message: "the line must be a JSON object")
                    }
                    read.append(BodyLines.Line(number: number, value: value))
                } catch let error where error is RequestObject.Malformed || Self.hasTooMany(error) {
                    failure = LineFailure(line: number, error: error)
                    break
                }
            }
            evaluation.leave(read)
            return (read, failure)
        }
    }

    private static func hasTooMany(_ error: any Error) -> Bool {
        (error as? ServiceError)?.code == .tooManyValues
    }

    /// No less than the values in a line, as far as they are not counted while it is read.
    private static func fewValues(_ line: [UInt8]) -> Int {
        var count = 1
        for byte in line
        where byte == UInt8(ascii: ",") || byte == UInt8(ascii: "[") || byte == UInt8(ascii: "{") {
            count += 1
            if count == ParsingBounds.step { break }
        }
        return count
    }
}
