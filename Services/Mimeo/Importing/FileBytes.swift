/// The bytes of a text as UTF-8, read in chunks, without a byte order mark at the beginning.
struct FileBytes {
    private let name: String
    private let read: () throws -> [UInt8]
    private let encoding: TextEncoding?
    private var decoding: TextDecoding?
    private var chunk: [UInt8] = []
    private var place = 0
    private var isAtEnd = false

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

    /// Reads the next chunk; false at the end.
    private mutating func fill() throws -> Bool {
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
            chunk = try decoding?.decode(bytes, isEnd: isAtEnd) ?? bytes
            place = 0
            if !chunk.isEmpty { return true }
        }
        return false
    }
}
