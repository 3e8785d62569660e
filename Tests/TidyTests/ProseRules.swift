/// How comments begin.
enum ProseRules {
    /// A sentence that begins so has no noun for its subject: the reader has to find out what it is about.
    static let pronouns: Set<String> = ["What", "Who", "Whose", "That", "Those", "Of", "Whether", "Which"]

    /// The number of comments that still begin so in the parts that sync. A figure here may fall and may not
    /// rise; everywhere else it is zero.
    static let ceilings = [
        "Services/Replicator": 44, "Shared/Transport": 10,
    ]

    /// The folder of `ceilings` that a file lies in.
    static func wing(of file: SourceFile) -> String? {
        ceilings.keys.first { file.path.hasPrefix("\($0)/") }
    }

    /// Every doc comment (a run of lines with `///`) whose first word is one of `pronouns`.
    static func beginnings(_ file: SourceFile) -> [Violation] {
        var isInComment = false
        return file.text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .enumerated().compactMap { index, bytes in
                let line = bytes.drop { $0 == UInt8(ascii: " ") }
                guard line.starts(with: "///".utf8) else {
                    isInComment = false
                    return nil
                }
                defer { isInComment = true }
                let text = line.dropFirst(3).drop { $0 == UInt8(ascii: " ") }
                let word = String(decoding: text.prefix { Declarations.isNamePart($0) }, as: UTF8.self)
                guard !isInComment, pronouns.contains(word) else { return nil }
                return Violation(
                    path: file.path, line: index + 1,
                    message: "a comment begins with \(word): name its subject")
            }
    }
}
