/// The kinds of statements that a metric tells apart: by the first word, since a statement that is slow to
/// parse has a kind too.
enum StatementKinds {
    private static let words: Set<String> = [
        "select", "insert", "update", "delete", "evict", "show", "explain", "profile", "advise", "alter",
        "create", "drop", "upsert", "import", "begin",
    ]

    /// `select`, …, or `other`.
    static func kind(of text: String) -> String {
        let word = text.drop { $0.isWhitespace || $0 == "(" }.prefix { $0.isLetter }.prefix(16).lowercased()
        return words.contains(word) ? word : "other"
    }
}
