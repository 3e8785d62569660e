/// How long a line, a file, a function and a README may get.
enum SizeRules {
    static let lineColumns = 110
    static let fileLines = 800
    static let functionLines = 70
    static let readmeLines = 120
    static let mainReadmeLines = 150

    static func longLines(_ file: SourceFile) -> [Violation] {
        file.lines.compactMap { line in
            guard line.text.utf8.count > lineColumns, line.text.count > lineColumns else { return nil }
            let message = "\(line.text.count) columns, more than \(lineColumns)"
            return Violation(path: file.path, line: line.number, message: message)
        }
    }

    static func longFile(_ file: SourceFile, limit: Int = fileLines) -> [Violation] {
        let count = file.text.utf8.count { $0 == UInt8(ascii: "\n") }
        guard count > limit else { return [] }
        return [Violation(path: file.path, line: count, message: "\(count) lines, more than \(limit)")]
    }

    /// Functions and initializers, from the line of the keyword to that of the closing brace.
    static func longFunctions(_ file: SourceFile) -> [Violation] {
        FunctionFinder(file.swift.code).functions().compactMap { function in
            let count = function.lastLine - function.firstLine + 1
            guard count >= functionLines else { return nil }
            let message = "a function of \(count) lines; they stay under \(functionLines)"
            return Violation(path: file.path, line: function.firstLine, message: message)
        }
    }
}

/// Finds the bodies of functions in blanked code (`SwiftText.code`).
struct FunctionFinder {
    struct Function: Equatable {
        let firstLine: Int
        let lastLine: Int
    }

    private let code: [UInt8]
    /// The line of each byte, from 1.
    private let lineOf: [Int]

    init(_ code: [UInt8]) {
        self.code = code
        var line = 1
        lineOf = code.map { byte in
            defer { line += byte == UInt8(ascii: "\n") ? 1 : 0 }
            return line
        }
    }

    func functions() -> [Function] {
        let words: [[UInt8]] = [
            Array("func ".utf8), Array("init(".utf8), Array("init?(".utf8), Array("init<".utf8),
        ]
        let initials: [UInt8] = [UInt8(ascii: "f"), UInt8(ascii: "i")]
        return code.indices.compactMap { start in
            guard initials.contains(code[start]), isWordStart(start) else { return nil }
            guard words.contains(where: { starts(with: $0, at: start) }) else { return nil }
            guard let open = bodyStart(after: start), let close = closingBrace(of: open) else { return nil }
            return Function(firstLine: lineOf[start], lastLine: lineOf[close])
        }
    }

    private func starts(with word: [UInt8], at index: Int) -> Bool {
        index + word.count <= code.count && code[index..<(index + word.count)].elementsEqual(word)
    }

    /// Neither inside a longer name nor a call such as `self.init(`.
    private func isWordStart(_ index: Int) -> Bool {
        guard index > 0 else { return true }
        return " \n\t;{".utf8.contains(code[index - 1])
    }

    /// The `{` of the body; nil for a requirement of a protocol, which ends with its line or the protocol.
    private func bodyStart(after start: Int) -> Int? {
        var depth = 0
        for index in start..<code.count {
            switch code[index] {
            case UInt8(ascii: "("), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: ")"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: "{") where depth == 0: return index
            case UInt8(ascii: "}") where depth == 0: return nil
            case UInt8(ascii: "\n") where depth == 0 && !continues(after: index): return nil
            default: break
            }
        }
        return nil
    }

    /// Returns whether the next line continues the same signature.
    private func continues(after newline: Int) -> Bool {
        let rest = code[(newline + 1)...].drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") }
        let forms = ["{", "->", "where ", "async", "throws", "rethrows", "("]
        return forms.contains { rest.starts(with: $0.utf8) }
    }

    private func closingBrace(of open: Int) -> Int? {
        var depth = 0
        for index in open..<code.count {
            if code[index] == UInt8(ascii: "{") { depth += 1 }
            if code[index] == UInt8(ascii: "}") { depth -= 1 }
            if depth == 0 { return index }
        }
        return nil
    }
}
