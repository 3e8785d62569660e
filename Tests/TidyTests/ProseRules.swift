/// How sentences begin in comments, READMEs and pages.
enum ProseRules {
    /// A sentence that begins so has no noun for its subject: the reader has to find out what it is about.
    static let pronouns: Set<String> = ["What", "Who", "Whose", "That", "Those", "Of", "Whether", "Which"]

    /// The number of sentences that still begin so, by part. A figure here may fall and may not rise;
    /// everywhere else it is zero.
    static let ceilings: [String: Int] = [:]

    /// The module, service or folder that a file is counted in; nil for one that is not judged. A record of
    /// a decision stays as it was written.
    static func part(of file: SourceFile) -> String? {
        guard file.path.hasSuffix(".md") || file.path.hasSuffix(".swift") else { return nil }
        let parts = file.path.split(separator: "/")
        switch parts[0] {
        case "Shared", "Services":
            let isRecord = parts[1] == "Decisions" && parts[2] != "README.md"
            return isRecord ? nil : parts.prefix(2).joined(separator: "/")
        case "Docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md": return String(parts[0])
        default: return nil
        }
    }

    /// Every sentence whose first word is one of `pronouns`: of comments in Swift, of prose in Markdown.
    /// Headings, tables and code blocks have no sentences.
    static func beginnings(_ file: SourceFile) -> [Violation] {
        let lines = file.path.hasSuffix(".md") ? paragraphs(file) : comments(file)
        var isStart = true
        return lines.flatMap { line -> [Violation] in
            if line.begins { isStart = true }
            return line.text.split(separator: Self.space).compactMap { word -> Violation? in
                // A dash or the mark of an item is no word.
                guard word.contains(where: Declarations.isNamePart) else { return nil }
                defer { isStart = ends(word) }
                guard isStart else { return nil }
                let name = word.drop { openers.contains($0) }.prefix(while: Declarations.isNamePart)
                let first = String(decoding: name, as: UTF8.self)
                guard pronouns.contains(first) else { return nil }
                return Violation(
                    path: file.path, line: line.number,
                    message: "a sentence begins with \(first): name its subject")
            }
        }
    }

    // MARK: words

    private static let space = UInt8(ascii: " ")
    private static let newline = UInt8(ascii: "\n")
    private static let openers = Array("(\"*_[".utf8)
    private static let closers = Array(")\"*_]".utf8)
    private static let stops = Array(".?!".utf8)
    private static let fence = "```".utf8
    private static let items = ["- ", "* ", "> "]

    private static func ends(_ word: ArraySlice<UInt8>) -> Bool {
        word.last { !closers.contains($0) }.map(stops.contains) ?? false
    }

    // MARK: lines

    /// A line of text; `begins` where it does not go on with the sentence before.
    private struct Line {
        let number: Int
        let text: ArraySlice<UInt8>
        let begins: Bool
    }

    /// Looks at a line after the mark of its comment or the spaces before it.
    private static func isItem(_ text: ArraySlice<UInt8>) -> Bool {
        items.contains { text.starts(with: $0.utf8) }
    }

    /// The prose of a Markdown file.
    private static func paragraphs(_ file: SourceFile) -> [Line] {
        var begins = true
        return Markdown(file).lines.compactMap { line -> Line? in
            let text = Array(line.text.utf8).drop { $0 == space }
            guard line.kind == .prose, let first = text.first, !"#<".utf8.contains(first) else {
                begins = true
                return nil
            }
            defer { begins = false }
            return Line(number: line.number, text: text, begins: begins || isItem(text))
        }
    }

    /// The text of a Swift file's comments, also of those after code. Lines with the same mark in a row are
    /// one comment.
    private static func comments(_ file: SourceFile) -> [Line] {
        let code = file.swift.code.split(separator: newline, omittingEmptySubsequences: false)
        let lines = Array(file.text.utf8).split(separator: newline, omittingEmptySubsequences: false)
        var mark: Int?
        var begins = true
        var isInBlock = false
        return lines.indices.compactMap { index -> Line? in
            guard file.swift.commented[index], let rest = comment(lines[index], code[index]) else {
                (mark, isInBlock) = (nil, false)
                return nil
            }
            let hasCode = code[index].contains { $0 != space }
            let slashes = rest.prefix { $0 == UInt8(ascii: "/") }.count
            let text = rest.dropFirst(slashes).drop { $0 == space }
            if hasCode || mark != slashes { (begins, isInBlock) = (true, false) }
            mark = hasCode ? nil : slashes
            let isFence = text.starts(with: fence)
            if isFence { isInBlock.toggle() }
            guard !isFence, !isInBlock, !text.isEmpty else {
                begins = true
                return nil
            }
            defer { begins = false }
            return Line(number: index + 1, text: text, begins: begins || isItem(text))
        }
    }

    /// The rest of a line from its `//` on; nil if none follows the code.
    private static func comment(
        _ line: ArraySlice<UInt8>, _ code: ArraySlice<UInt8>
    ) -> ArraySlice<UInt8>? {
        let end = code.lastIndex { $0 != space }.map { $0 - code.startIndex + 1 } ?? 0
        let rest = line.dropFirst(end).drop { $0 == space }
        return rest.starts(with: "//".utf8) ? rest : nil
    }
}
