/// Parses multipart/form-data (RFC 7578) as it arrives, in pieces of any size. It never holds more than one
/// piece and the longest delimiter.
///
/// Invariant: `pending` holds bytes that have arrived and are not yet parsed. Between two calls they are at
/// most an unfinished header block, or the possible beginning of a delimiter.
struct MultipartParser {
    enum Event: Equatable {
        /// A part's headers, names in lower case.
        case partBegins([String: String])
        /// Bytes of the part.
        case data([UInt8])
        /// The delimiter after the part has arrived.
        case partEnds
        /// The closing delimiter has arrived; bytes after it are ignored.
        case finished
    }

    private enum State { case preamble, delimiter, headers, body, finished }

    private let delimiter: [UInt8]
    // Begins with a line break: every delimiter starts with one, except a first one at the very beginning.
    private var pending: [UInt8] = [0x0D, 0x0A]
    private var state = State.preamble
    /// True if the two bytes at the front of `pending` belong to the headers and not to the body.
    private var holdsHeaderBreak = false
    private var preambleBytes = 0

    /// - Throws: `ATT-0101` for a content type without a valid boundary.
    init(contentType: String) throws {
        guard let boundary = HeaderParameters(contentType)["boundary"], !boundary.isEmpty,
            boundary.utf8.count <= Limits.boundaryBytes, boundary.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F })
        else {
            throw Self.malformed(
                "multipart/form-data needs a boundary of 1 to \(Limits.boundaryBytes) characters")
        }
        delimiter = Array("\r\n--\(boundary)".utf8)
    }

    /// True once the closing delimiter has arrived.
    var isFinished: Bool { state == .finished }

    /// Parses the next bytes.
    /// - Throws: `ATT-0101`.
    mutating func push(_ bytes: some Sequence<UInt8>) throws -> [Event] {
        guard state != .finished else { return [] }
        pending += bytes
        var events: [Event] = []
        while try step(&events) {}
        return events
    }

    /// Parses one step; returns false when more bytes are needed.
    private mutating func step(_ events: inout [Event]) throws -> Bool {
        switch state {
        case .finished:
            pending = []
            return false
        case .preamble:
            let found = takeUpToDelimiter()
            preambleBytes += found.bytes.count
            guard preambleBytes <= Limits.preambleBytes else {
                throw Self.malformed(
                    "no boundary in the first \(Limits.preambleBytes) bytes of the form")
            }
            if found.isComplete { state = .delimiter }
            return found.isComplete
        case .body:
            var found = takeUpToDelimiter()
            if holdsHeaderBreak, found.isComplete || !found.bytes.isEmpty {
                found.bytes.removeFirst(min(2, found.bytes.count))
                holdsHeaderBreak = false
            }
            if !found.bytes.isEmpty { events.append(.data(found.bytes)) }
            if found.isComplete {
                events.append(.partEnds)
                state = .delimiter
            }
            return found.isComplete
        case .delimiter:
            return try readDelimiterEnd(&events)
        case .headers:
            return try readHeaders(&events)
        }
    }

    /// Reads the end of a delimiter: `--` (the form ends), or blanks and a line break (a part follows).
    private mutating func readDelimiterEnd(_ events: inout [Event]) throws -> Bool {
        if pending.starts(with: [0x2D, 0x2D]) {
            events.append(.finished)
            state = .finished
            return true
        }
        let blanks = pending.prefix { $0 == 0x20 || $0 == 0x09 }.count
        guard pending.count >= blanks + 2 else {
            guard pending.count <= Limits.partHeaderBytes else {
                throw Self.malformed("a boundary has no line break after it")
            }
            return false
        }
        guard pending[blanks] == 0x0D, pending[blanks + 1] == 0x0A else {
            throw Self.malformed("a boundary must be followed by -- or a line break")
        }
        // The line break stays: with it an empty header block ends with two, like any other.
        pending.removeFirst(blanks)
        state = .headers
        return true
    }

    private mutating func readHeaders(_ events: inout [Event]) throws -> Bool {
        let end: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A]
        guard let place = Self.find(end, in: pending) else {
            guard pending.count <= Limits.partHeaderBytes else {
                throw Self.malformed("a part's headers exceed \(Limits.partHeaderBytes) bytes")
            }
            return false
        }
        guard place <= Limits.partHeaderBytes, let text = String(validating: pending[..<place], as: UTF8.self)
        else {
            throw Self.malformed("a part's headers exceed \(Limits.partHeaderBytes) bytes or are not UTF-8")
        }
        var headers: [String: String] = [:]
        for line in text.split(separator: "\r\n") {
            guard let colon = line.firstIndex(of: ":") else {
                throw Self.malformed("a part has a header without a colon")
            }
            headers[line[..<colon].lowercased()] = String(
                line[line.index(after: colon)...].drop { $0 == " " })
        }
        // The headers' last line break stays, since an empty part's delimiter begins with it. The body drops
        // it.
        pending.removeFirst(place + end.count - 2)
        holdsHeaderBreak = true
        events.append(.partBegins(headers))
        state = .body
        return true
    }

    /// Takes the bytes before the next delimiter. Without one, takes all that cannot be its beginning.
    private mutating func takeUpToDelimiter() -> (bytes: [UInt8], isComplete: Bool) {
        if let place = Self.find(delimiter, in: pending) {
            let bytes = Array(pending[..<place])
            pending.removeFirst(place + delimiter.count)
            return (bytes, true)
        }
        let keep = min(pending.count, delimiter.count - 1)
        // A delimiter begins with a line break; without one near the end all bytes can be taken.
        let tail = pending.count - keep
        let from = pending[tail...].firstIndex(of: 0x0D) ?? pending.count
        let bytes = Array(pending[..<from])
        pending.removeFirst(from)
        return (bytes, false)
    }

    /// The first index of `needle`. Uses the buffer's vectorized search for the first byte.
    private static func find(_ needle: [UInt8], in haystack: [UInt8]) -> Int? {
        haystack.withUnsafeBufferPointer { bytes in
            var start = 0
            while bytes.count - start >= needle.count,
                let found = bytes[start...].firstIndex(of: needle[0]), bytes.count - found >= needle.count
            {
                if bytes[found..<(found + needle.count)].elementsEqual(needle) { return found }
                start = found + 1
            }
            return nil
        }
    }

    private static func malformed(_ message: String) -> AttachmentStoreError {
        AttachmentStoreError(.formMalformed, message)
    }
}

/// `text/x; name=value; other="quoted \" value"`: a header value with parameters (RFC 9110 section 5.6.6).
struct HeaderParameters {
    /// The text before the first semicolon, in lower case.
    let value: String
    private var parameters: [String: String] = [:]

    init(_ text: String) {
        var pieces: [String] = [""]
        var isQuoted = false
        var isEscaped = false
        for character in text {
            if character == ";", !isQuoted {
                pieces.append("")
                continue
            }
            if character == "\"", !isEscaped { isQuoted.toggle() }
            isEscaped = isQuoted && character == "\\" && !isEscaped
            pieces[pieces.count - 1].append(character)
        }
        value = Self.trimmed(pieces[0]).lowercased()
        for piece in pieces.dropFirst() {
            guard let equals = piece.firstIndex(of: "=") else { continue }
            let name = Self.trimmed(piece[..<equals]).lowercased()
            parameters[name] = Self.unquoted(Self.trimmed(piece[piece.index(after: equals)...]))
        }
    }

    subscript(_ name: String) -> String? { parameters[name] }

    private static func trimmed(_ text: some StringProtocol) -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        return String(String(text.drop(while: isBlank).reversed()).drop(while: isBlank).reversed())
    }

    private static func unquoted(_ text: String) -> String {
        guard text.count >= 2, text.first == "\"", text.last == "\"" else { return text }
        var result = ""
        var isEscaped = false
        for character in text.dropFirst().dropLast() {
            if character == "\\", !isEscaped {
                isEscaped = true
            } else {
                result.append(character)
                isEscaped = false
            }
        }
        return result
    }
}
