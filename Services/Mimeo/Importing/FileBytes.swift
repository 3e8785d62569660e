/// The bytes of a text as UTF-8, read in chunks, without a byte order mark at the beginning and Control-Z at
/// the end.
struct FileBytes {
    private static let endMark: UInt8 = 0x1A

    private let name: String
    private let read: () throws -> [UInt8]
    private let encoding: TextEncoding?
    private var decoding: TextDecoding?
    private var chunk: [UInt8] = []
    private var place = 0
    private var isAtEnd = false
    /// End marks, with line ends between and after them, that wait for text to follow.
    private var held: [UInt8] = []

    /// - Parameters:
    ///   - encoding: the value of `--encoding`.
    ///   - read: returns the next chunk; empty at the end.
    init(name: String, encoding: TextEncoding? = nil, _ read: @escaping () throws -> [UInt8]) {
        self.name = name
        self.encoding = encoding
        self.read = read
    }

    /// The next byte; nil at the end.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    mutating func next() throws -> UInt8? {
        if place == chunk.count {
            guard try fill() else { return nil }
        }
        defer { place += 1 }
        return chunk[place]
    }

    /// The next byte, which `next` will return again.
    mutating func peek() throws -> UInt8? {
        if place == chunk.count {
            guard try fill() else { return nil }
        }
        return chunk[place]
    }

    /// Encoding of the text: that of its mark, else the given one, else UTF-8. Reads the beginning.
    mutating func actualEncoding() throws -> TextEncoding {
        _ = try peek()
        return decoding?.encoding ?? encoding ?? .utf8
    }

    /// Takes byte order marks if they are next: files that were put together have one at each beginning.
    /// - Returns: whether there was one.
    @discardableResult
    mutating func skipMark() throws -> Bool {
        var hasMark = false
        while try peek() == TextDecoding.mark[0] {
            while chunk.count - place < TextDecoding.mark.count, let more = try piece() {
                (chunk, place) = (Array(chunk[place...]) + more, 0)
            }
            guard chunk[place...].starts(with: TextDecoding.mark) else { break }
            place += TextDecoding.mark.count
            hasMark = true
        }
        return hasMark
    }

    /// Reads the next chunk; false at the end.
    private mutating func fill() throws -> Bool {
        guard let next = try piece() else { return false }
        (chunk, place) = (next, 0)
        return true
    }

    /// The next bytes, at least one; nil at the end.
    private mutating func piece() throws -> [UInt8]? {
        while !isAtEnd {
            var bytes: [UInt8] = []
            if decoding == nil {
                // A mark, or the look of UTF-16, needs a few bytes.
                repeat {
                    let more = try read()
                    isAtEnd = more.isEmpty
                    bytes += more
                } while bytes.count < 4 && !isAtEnd
                decoding = try TextDecoding(name: name, head: &bytes, encoding: encoding)
            } else {
                bytes = try read()
                isAtEnd = bytes.isEmpty
            }
            var text = try decoding?.decode(bytes, isEnd: isAtEnd) ?? bytes
            holdEndMarks(&text)
            if !text.isEmpty { return text }
        }
        return nil
    }

    /// Takes Control-Z, by which old systems end a text, off the end of a piece until more text follows.
    private mutating func holdEndMarks(_ text: inout [UInt8]) {
        if !held.isEmpty, !text.isEmpty {
            text = held + text
            held = []
        }
        let tail = text.reversed().prefix { $0 == Self.endMark || $0 == 0x0A || $0 == 0x0D }.count
        guard let start = text[(text.count - tail)...].firstIndex(of: Self.endMark),
            text.count - start < Limits.fileChunkBytes
        else { return }
        held = Array(text[start...])
        text.removeSubrange(start...)
    }
}
