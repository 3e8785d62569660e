import Foundation

/// A Markdown file line by line: which lines are prose, tables or code blocks, and the code spans in them.
struct Markdown {
    enum Kind { case prose, table, code }

    struct Line {
        let number: Int
        let kind: Kind
        let text: String

        /// The texts between single backticks. A span that goes on in the next line is not found.
        var spans: [String] {
            text.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                .compactMap { $0.offset % 2 == 1 ? String($0.element) : nil }
        }

        /// The cells of a table's row, without the spaces around them.
        var cells: [String] {
            text.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                .map { $0.trimmingCharacters(in: .whitespaces) }
        }

        /// The targets of links: `b` of `[a](b)` and of a line `[a]: b`.
        var links: [String] {
            let definition = text.components(separatedBy: "]: ")
            if text.hasPrefix("["), definition.count == 2 { return [definition[1]] }
            return text.components(separatedBy: "](").dropFirst().compactMap { rest in
                rest.firstIndex(of: ")").map { String(rest[..<$0]) }
            }
        }
    }

    let path: String
    let lines: [Line]

    init(_ file: SourceFile) {
        path = file.path
        var isInBlock = false
        lines = file.lines.map { line in
            let start = line.text.drop { $0 == " " }
            let isFence = start.hasPrefix("```")
            defer { if isFence { isInBlock.toggle() } }
            let kind: Kind = isInBlock || isFence ? .code : start.hasPrefix("|") ? .table : .prose
            return Line(number: line.number, kind: kind, text: line.text)
        }
    }

    /// The rows of all tables, without their heads and the lines of dashes below these.
    var rows: [Line] {
        lines.indices.filter { index in
            guard lines[index].kind == .table, !Self.isRuler(lines[index]) else { return false }
            return index + 1 == lines.count || !Self.isRuler(lines[index + 1])
        }
        .map { lines[$0] }
    }

    private static func isRuler(_ line: Line) -> Bool {
        line.kind == .table && line.text.allSatisfy { "|-: ".contains($0) }
    }
}
