/// Swift source with everything blanked that is not code.
///
/// A small lexer that knows comments (nested), string literals (multi-line, raw, with interpolation) and no
/// more. Blanked bytes become spaces, line feeds stay, so offsets and line numbers are those of the file.
/// Code inside an interpolation counts as code. Regex literals are read as code, which no rule here minds.
struct SwiftText {
    /// The file's bytes with comments and the contents of literals blanked.
    private(set) var code: [UInt8]
    /// One flag a line, whether any comment touches it; index 0 is line 1.
    private(set) var commented: [Bool]

    private let source: [UInt8]
    private var position = 0
    private var line = 0

    init(_ text: String) {
        source = Array(text.utf8)
        code = source.map { $0 == Self.newline ? $0 : Self.space }
        commented = Array(repeating: false, count: source.count { $0 == Self.newline } + 1)
        scanCode(untilClosingParenthesis: false)
    }

    /// The blanked code, line by line.
    var lines: [String] {
        code.split(separator: Self.newline, omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
    }

    private static let newline = UInt8(ascii: "\n")
    private static let space = UInt8(ascii: " ")
    private static let quote = UInt8(ascii: "\"")
    private static let hash = UInt8(ascii: "#")

    private func starts(with text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard position + count <= source.count else { return false }
        return (0..<count).allSatisfy { source[position + $0] == text.utf8Start[$0] }
    }

    private mutating func skip(_ count: Int = 1) {
        let end = min(position + count, source.count)
        while position < end {
            if source[position] == Self.newline { line += 1 }
            position += 1
        }
    }

    private mutating func scanCode(untilClosingParenthesis: Bool) {
        var depth = 0
        while position < source.count {
            if starts(with: "//") {
                scanLineComment()
            } else if starts(with: "/*") {
                scanBlockComment()
            } else if let hashes = stringOpening() {
                scanString(hashes: hashes)
            } else {
                let byte = source[position]
                if byte == UInt8(ascii: "(") { depth += 1 }
                if byte == UInt8(ascii: ")") { depth -= 1 }
                if untilClosingParenthesis, depth < 0 { return }
                code[position] = byte
                skip()
            }
        }
    }

    private mutating func scanLineComment() {
        commented[line] = true
        while position < source.count, source[position] != Self.newline { skip() }
    }

    private mutating func scanBlockComment() {
        var depth = 0
        repeat {
            commented[line] = true
            if starts(with: "/*") {
                depth += 1
                skip(2)
            } else if starts(with: "*/") {
                depth -= 1
                skip(2)
            } else {
                skip()
            }
        } while depth > 0 && position < source.count
    }

    /// The number of `#` before a string literal that starts here; nil where none starts.
    private func stringOpening() -> Int? {
        var at = position
        while at < source.count, source[at] == Self.hash { at += 1 }
        return at < source.count && source[at] == Self.quote ? at - position : nil
    }

    private mutating func scanString(hashes: Int) {
        skip(hashes)
        let isMultiline = starts(with: "\"\"\"")
        let quotes = isMultiline ? 3 : 1
        skip(quotes)
        while position < source.count {
            if source[position] == Self.newline, !isMultiline { return }
            if isEscape(hashes: hashes) {
                skip(1 + hashes)
                scanEscaped()
            } else if isClosing(quotes: quotes, hashes: hashes) {
                return skip(quotes + hashes)
            } else {
                skip()
            }
        }
    }

    private mutating func scanEscaped() {
        guard position < source.count, source[position] == UInt8(ascii: "(") else { return skip() }
        skip()
        scanCode(untilClosingParenthesis: true)
        skip()
    }

    private func isEscape(hashes: Int) -> Bool {
        guard source[position] == UInt8(ascii: "\\"), position + hashes < source.count else { return false }
        return source[(position + 1)..<(position + 1 + hashes)].allSatisfy { $0 == Self.hash }
    }

    private func isClosing(quotes: Int, hashes: Int) -> Bool {
        guard position + quotes + hashes <= source.count else { return false }
        let end = source[position..<(position + quotes + hashes)]
        return end.prefix(quotes).allSatisfy { $0 == Self.quote }
            && end.dropFirst(quotes).allSatisfy { $0 == Self.hash }
    }
}
