import CRDT

/// Moves over a JSON text of any length and cuts values out of it. It knows where values begin and end, and
/// leaves the check of each to `JSONText`.
struct JSONCursor {
    let name: String
    private var bytes: FileBytes
    /// The current line, from 1.
    private(set) var line = 1
    /// True once a mark of a JSON text sequence was taken.
    private(set) var isSequence = false

    /// The mark before each text of a JSON text sequence.
    static let recordSeparator: UInt8 = 0x1E

    init(_ source: TextSource) throws {
        name = source.name
        bytes = try source.open()
    }

    func failure(_ what: String) -> MimeoError { MimeoError(.fileMalformed, "\(name):\(line): \(what)") }

    /// The first byte of the next token, which stays; nil at the end.
    mutating func peek() throws -> UInt8? {
        while let byte = try bytes.peek() {
            guard Self.isSpace(byte) else { return byte }
            _ = try take()
        }
        return nil
    }

    /// The first byte of the next text: after spaces, marks of a sequence (RFC 7464), and byte order marks,
    /// which files that were put together have. Nil at the end.
    mutating func peekText() throws -> UInt8? {
        while let byte = try peek() {
            if byte == Self.recordSeparator {
                _ = try take()
                isSequence = true
            } else if try !bytes.skipMark() {
                return byte
            }
        }
        return nil
    }

    /// Takes a punctuation mark if it is the next token.
    mutating func take(_ mark: Character) throws -> Bool {
        guard try peek() == mark.asciiValue else { return false }
        _ = try take()
        return true
    }

    /// Takes a key and its colon.
    mutating func key() throws -> String {
        guard try peek() == UInt8(ascii: "\"") else { throw failure("invalid JSON: a key must be a string") }
        let text = try parsed(try value()).stringValue ?? ""
        guard try take(":") else { throw failure("invalid JSON: a colon is missing") }
        return text
    }

    /// Takes the next value and returns its text, which is not checked.
    mutating func value() throws -> [UInt8] {
        var text: [UInt8] = []
        try walk { text.append($0) }
        return text
    }

    /// Takes the next value.
    mutating func skip() throws { try walk { _ in } }

    private func parsed(_ text: [UInt8]) throws -> Value {
        do { return try JSONText.parse(text, roundsIntegers: true) } catch {
            throw failure(Self.problem(error, text))
        }
    }

    private mutating func walk(_ keep: (UInt8) -> Void) throws {
        guard let first = try peek() else { throw failure("invalid JSON: a value is missing") }
        var (depth, size, isString, isEscaped) = (0, 0, false, false)
        let isScalar = first != UInt8(ascii: "\"") && first | 0x20 != UInt8(ascii: "{")
        while let byte = try bytes.peek() {
            if isScalar, Self.isSpace(byte) || ",]}".utf8.contains(byte) {
                guard size > 0 else { throw failure("invalid JSON: a value is missing") }
                return
            }
            _ = try take()
            keep(byte)
            size += 1
            guard size <= Limits.recordBytes else {
                throw failure("a value is longer than \(Limits.recordBytes) bytes")
            }
            if isString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else {
                    isString = byte != UInt8(ascii: "\"")
                }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isString = true
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
                default: break
                }
            }
            if !isScalar, depth == 0, !isString { return }
        }
        guard isScalar else { throw failure("invalid JSON: the text ends within a value") }
    }

    private mutating func take() throws -> UInt8? {
        let byte = try bytes.next()
        if byte == UInt8(ascii: "\n") { line += 1 }
        return byte
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    /// The message of an error in a text; names `--encoding` where that is the cause.
    static func problem(_ error: CRDTError, _ text: [UInt8]) -> String {
        String(validating: text, as: UTF8.self) == nil ? TextEncoding.advice : "\(error.message) of the value"
    }
}

/// The lists and objects in a JSON text, found by reading and checking all of it.
struct JSONOutline {
    enum Shape {
        case array, object
        /// One object a line.
        case lines
        /// Several objects, one after another, in other lines than one each.
        case sequence
    }

    private(set) var shape = Shape.object
    /// The keys that lead to each array of objects; those of the outer object come with one key.
    private(set) var lists: [[String]] = []
    /// The keys that lead to the array that `--path` names.
    private(set) var named: [String]?
    /// True if the outer object has an `_id`, as documents have.
    private(set) var hasID = false
    private(set) var isFeatureCollection = false
    /// Number of arrays that follow each other.
    private(set) var arrays = 0
    /// True for a JSON text sequence.
    private(set) var isSequence = false

    private let path: String?
    private let keepGoing: Bool

    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(_ source: TextSource, path: String?, keepGoing: Bool) throws {
        self.path = path
        self.keepGoing = keepGoing
        var cursor = try JSONCursor(source)
        switch try cursor.peekText() {
        case UInt8(ascii: "["):
            shape = .array
            repeat {
                _ = try elements(&cursor)
                arrays += 1
            } while try cursor.peekText() == UInt8(ascii: "[")
            if try cursor.peek() != nil { throw cursor.failure("invalid JSON: text follows the array") }
        case UInt8(ascii: "{"):
            isSequence = cursor.isSequence
            if isSequence { shape = .sequence }
            let first = cursor.line
            try object(&cursor, [])
            let last = cursor.line
            guard let next = try cursor.peekText() else { return }
            guard next == UInt8(ascii: "{") else {
                throw cursor.failure("invalid JSON: text follows the value")
            }
            shape = first == last && cursor.line > last ? .lines : .sequence
        case nil: throw cursor.failure("the text is empty")
        default: throw cursor.failure("the text must be an array of objects, or objects")
        }
    }

    private mutating func object(_ cursor: inout JSONCursor, _ keys: [String]) throws {
        _ = try cursor.take("{")
        if try cursor.take("}") { return }
        repeat {
            let key = try cursor.key()
            let place = keys + [key]
            switch try cursor.peek() {
            case UInt8(ascii: "["):
                let isList = try elements(&cursor)
                if isList, place.count == 1 || lists.count < Limits.listsFound { lists.append(place) }
                if utf8Equal(place.joined(separator: "."), path ?? "") { named = place }
            case UInt8(ascii: "{") where keys.count < Limits.listDepth: try object(&cursor, place)
            default:
                let text = try cursor.value()
                try check(text, cursor)
                if keys.isEmpty, key == "type" {
                    isFeatureCollection = text.elementsEqual("\"FeatureCollection\"".utf8)
                }
            }
            if keys.isEmpty, key == "_id" { hasID = true }
        } while try cursor.take(",")
        guard try cursor.take("}") else {
            throw cursor.failure("invalid JSON: a comma or closing brace is missing")
        }
    }

    /// Reads an array; true if it has elements and all are objects.
    private func elements(_ cursor: inout JSONCursor) throws -> Bool {
        _ = try cursor.take("[")
        if try cursor.take("]") { return false }
        var isList = true
        repeat {
            isList = try cursor.peek() == UInt8(ascii: "{") && isList
            let line = cursor.line
            let text = try cursor.value()
            try check(text, cursor, line)
        } while try cursor.take(",")
        guard try cursor.take("]") else {
            throw cursor.failure("invalid JSON: a comma or closing bracket is missing")
        }
        return isList
    }

    private func check(_ text: [UInt8], _ cursor: JSONCursor, _ line: Int? = nil) throws {
        guard !keepGoing else { return }
        do { _ = try JSONText.parse(text, roundsIntegers: true) } catch {
            throw MimeoError(
                .fileMalformed, "\(cursor.name):\(line ?? cursor.line): \(JSONCursor.problem(error, text))")
        }
    }
}
