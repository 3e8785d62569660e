import DQL

/// The names of a database, for completion.
protocol KnownNames {
    /// The collections, sorted.
    func collections() -> [String]
    /// The fields of a collection, sorted; fields of objects as paths like `a.b`.
    func fields(of collection: String) -> [String]
}

/// The word at the cursor, and what may stand there instead.
struct Completion: Equatable {
    /// The word as typed, up to the cursor.
    var word: String
    /// Sorted, without duplicates.
    var choices: [String]

    /// The text for the word: the only choice with a space after it, or the part that all choices share, but
    /// never less than what was typed.
    var replacement: String {
        guard let first = choices.first else { return word }
        if choices.count == 1 { return first.hasSuffix("(") ? first : first + " " }
        var shared = Array(first)
        for choice in choices.dropFirst() {
            let other = Array(choice)
            let count = zip(shared, other).prefix { $0 == $1 }.count
            shared = Array(shared.prefix(count))
        }
        return shared.count >= word.count && String(shared) != word ? String(shared) : word
    }

    /// The choices for reading, several in a line.
    func list(columns: Int = 78) -> String {
        let shown = choices.prefix(Limits.offeredNames).map(PlainLine.of)
        let width = (shown.map(\.count).max() ?? 0) + 2
        let perLine = max(1, columns / width)
        var lines = stride(from: 0, to: shown.count, by: perLine).map { start in
            shown[start..<min(start + perLine, shown.count)]
                .map { $0 + String(repeating: " ", count: width - $0.count) }.joined()
        }
        if choices.count > shown.count { lines.append("… and \(choices.count - shown.count) more") }
        return lines.map { line in
            var line = line
            while line.hasSuffix(" ") { line.removeLast() }
            return line
        }.joined(separator: "\n")
    }
}

extension Completion {
    /// Words after which a collection is named.
    private static let beforeCollection: Set<String> = ["FROM", "INTO", "UPDATE", "JOIN", "COLLECTION"]
    private static let statementWords = [
        "ADVISE", "ALTER", "CREATE", "DELETE", "DROP", "EVICT", "EXPLAIN", "INSERT", "PROFILE", "SELECT",
        "SHOW",
        "UPDATE",
    ]

    /// The words that may stand at the cursor; nil in a literal or comment.
    /// - Parameters:
    ///   - before: the earlier lines of the statement.
    ///   - cursor: an offset in the line's UTF-8 bytes.
    init?(before: String, line: String, cursor: Int, names: some KnownNames) {
        let place = line.utf8.index(line.startIndex, offsetBy: min(cursor, line.utf8.count))
        let left = String(line[..<place])
        if before.isEmpty, let command = Self.command(left) {
            self = command
            return
        }
        let typed = before.isEmpty ? left : before + "\n" + left
        let word = String(typed.reversed().prefix(while: Self.isWordCharacter).reversed())
        let (tokens, isInLiteral) = StatementText.tokens(of: String(typed.dropLast(word.count)))
        guard !isInLiteral else { return nil }
        let whole = StatementText.tokens(of: typed + line[place...]).tokens
        let candidates: [String]
        if Self.namesCollection(after: tokens) {
            candidates = names.collections().map(StatementText.name) + Self.systemCollections
        } else if tokens.isEmpty || tokens.last == ";" || tokens.last?.uppercased() == "EXPLAIN" {
            candidates = Self.statementWords
        } else {
            candidates = Self.words(word, in: whole, names: names)
        }
        self.init(word: word, choices: Self.matching(word, candidates))
    }

    /// Commands of the prompt, and their arguments; nil if the line is no command.
    private static func command(_ left: String) -> Completion? {
        let text = left.drop { $0.isWhitespace }
        guard text.hasPrefix(".") || text.hasPrefix("\\"), !text.hasPrefix(".explain ") else { return nil }
        let words = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        let choices: [String]
        switch (words.count, words[0]) {
        case (1, _): choices = PromptCommand.names
        case (2, ".mode"): choices = OutputFormat.allCases.map(\.rawValue)
        case (2, ".timing"), (2, "\\timing"): choices = ["off", "on"]
        default: choices = []
        }
        let word = words[words.count - 1]
        return Completion(word: word, choices: choices.filter { $0.hasPrefix(word) }.sorted())
    }

    private static let systemCollections = SystemCollection.allCases.map { "system:\($0.rawValue)" }

    private static func isWordCharacter(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || "_.:".contains(character)
    }

    private static func namesCollection(after tokens: [String]) -> Bool {
        guard let last = tokens.last?.uppercased() else { return false }
        if last == "ON" { return tokens.contains { $0.uppercased() == "INDEX" } }
        return beforeCollection.contains(last)
    }

    /// Fields of the statement's collections; with a beginning also words of the grammar and functions.
    private static func words(_ word: String, in tokens: [String], names: some KnownNames) -> [String] {
        guard !word.hasPrefix(":") else { return [] }
        var candidates: [String] = []
        for (collection, alias) in collections(in: tokens) {
            let fields = names.fields(of: collection).map(spelled)
            candidates += fields
            for prefix in [alias, StatementText.name(collection)].compactMap({ $0 })
            where word.hasPrefix(prefix + ".") {
                candidates += fields.map { "\(prefix).\($0)" }
            }
        }
        guard !word.isEmpty, !word.contains(".") else { return candidates }
        let isLower = word.contains { $0.isLowercase }
        candidates += StatementText.keywords.map { isLower ? $0.lowercased() : $0 }
        candidates += StatementText.functions.map { (isLower ? $0 : $0.uppercased()) + "(" }
        return candidates
    }

    private static func spelled(_ path: String) -> String {
        path.split(separator: ".").map { StatementText.name(String($0)) }.joined(separator: ".")
    }

    /// The collections that a statement names, with their aliases.
    private static func collections(in tokens: [String]) -> [(name: String, alias: String?)] {
        tokens.indices.dropLast().compactMap { place in
            guard beforeCollection.contains(tokens[place].uppercased()) else { return nil }
            let name = plain(tokens[place + 1])
            guard tokens.indices.contains(place + 2) else { return (name, nil) }
            let isAS = tokens[place + 2].uppercased() == "AS"
            let aliasPlace = place + (isAS ? 3 : 2)
            guard tokens.indices.contains(aliasPlace) else { return (name, nil) }
            let alias = tokens[aliasPlace]
            let isWord = alias.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
            return (name, isWord && !StatementText.keywords.contains(alias.uppercased()) ? alias : nil)
        }
    }

    private static func plain(_ token: String) -> String {
        guard token.hasPrefix("`"), token.hasSuffix("`"), token.count > 1 else { return token }
        return token.dropFirst().dropLast().split(separator: "``", omittingEmptySubsequences: false)
            .joined(separator: "`")
    }

    /// The candidates that begin with the word; if none does, those that do in another case.
    private static func matching(_ word: String, _ candidates: [String]) -> [String] {
        let exact = candidates.filter { $0.hasPrefix(word) }
        let lower = word.lowercased()
        let found = exact.isEmpty ? candidates.filter { $0.lowercased().hasPrefix(lower) } : exact
        return Set(found).sorted()
    }
}
