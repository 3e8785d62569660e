import DQL

/// A line of the prompt that is no statement. Some have the name that `psql` uses, too.
enum PromptCommand: Equatable {
    case help
    case quit
    case tables
    case indexes
    case explain(String)
    case mode(OutputFormat?)
    case timing(Bool?)

    /// Names, arguments and meanings, in the order in which `.help` lists them.
    static let list: [(name: String, arguments: String, meaning: String)] = [
        (".explain", "STATEMENT", "show the plan of a statement as a tree"),
        (".help", "", "show this list"),
        (".indexes", "", "list the indexes"),
        (".mode", "[FORMAT]", "print results as json, table, csv, markdown or vertical; show the mode"),
        (".quit", "", "leave; also .exit, \\q and Control-D"),
        (".tables", "", "list the collections; also \\d"),
        (".timing", "[on|off]", "print the time of each statement, or not; also \\timing"),
    ]

    private static let synonyms = [
        "\\q": ".quit", ".exit": ".quit", "\\d": ".tables", ".collections": ".tables",
        "\\timing": ".timing", "\\?": ".help", "\\dt": ".tables", "\\di": ".indexes",
    ]

    /// The words that a line may begin with.
    static let names: [String] = (list.map(\.name) + synonyms.keys).sorted()

    /// Nil if the line is no command but the beginning of a statement.
    /// - Throws: `CLI-0501`.
    init?(_ line: String) throws(MimeoError) {
        let text = line.drop { $0.isWhitespace }
        if let word = try Self.habit(text) {
            self = word
            return
        }
        guard let first = text.first, first == "." || first == "\\" else { return nil }
        let word = String(text.prefix { !$0.isWhitespace && $0 != ";" })
        var rest = text.dropFirst(word.count).drop { $0.isWhitespace }
        while let last = rest.last, last.isWhitespace { rest.removeLast() }
        let name = Self.synonyms[word] ?? word
        // A statement's semicolon belongs to it; behind a command it is a habit.
        let argument = name == ".explain" ? String(rest) : String(rest.filter { $0 != ";" })
        switch (name, argument) {
        case (".help", ""): self = .help
        case (".quit", ""): self = .quit
        case (".tables", ""): self = .tables
        case (".indexes", ""): self = .indexes
        case (".explain", let statement) where !statement.isEmpty: self = .explain(statement)
        case (".mode", ""): self = .mode(nil)
        case (".mode", let format):
            guard let format = OutputFormat(rawValue: format) else {
                let known = OutputFormat.allCases.map(\.rawValue).joined(separator: ", ")
                throw Self.invalid(".mode takes \(known)")
            }
            self = .mode(format)
        case (".timing", ""): self = .timing(nil)
        case (".timing", "on"): self = .timing(true)
        case (".timing", "off"): self = .timing(false)
        default:
            if let known = Self.list.first(where: { $0.name == name }) {
                throw Self.invalid("\(known.name) is used as: \(known.name) \(known.arguments)")
            }
            let meant = Suggestion.closest(to: word, among: Self.names)
            let hint = meant.map { " (did you mean \($0)?)" } ?? ""
            throw Self.invalid("\(word) is no command\(hint); .help lists them")
        }
    }

    /// Words that people know from other prompts. No statement begins like these.
    /// - Throws: `CLI-0501` with the words of this prompt, for something that it has under another name.
    private static func habit(_ text: Substring) throws(MimeoError) -> PromptCommand? {
        let words = text.uppercased().split { $0.isWhitespace || $0 == ";" }.map(String.init)
        switch words {
        case ["EXIT"], ["QUIT"]: return .quit
        case ["HELP"], ["?"]: return .help
        case ["SHOW", "TABLES"], ["SHOW", "COLLECTIONS"]: return .tables
        case ["SHOW", "INDEXES"]: return .indexes
        default: break
        }
        switch words.first {
        case "DESCRIBE", "DESC", ".SCHEMA", "\\D+":
            throw invalid(
                "documents have no schema: Tab completes the fields of a collection, SELECT * FROM it LIMIT "
                    + "3 shows some documents, and .tables lists the collections")
        case "\\X": throw invalid(".mode vertical prints a line per field")
        case "USE" where words.count == 2: throw invalid("a prompt is for one database: see --database")
        default: return nil
        }
    }

    private static func invalid(_ message: String) -> MimeoError { MimeoError(.dotCommandInvalid, message) }

    /// The text of `.help`.
    static var helpText: String {
        let usages = list.map { $0.arguments.isEmpty ? $0.name : "\($0.name) \($0.arguments)" }
        let width = usages.map(\.count).max() ?? 0
        var lines = ["Statements end with ; or with an empty line. A SELECT of one line needs neither."]
        for (usage, command) in zip(usages, list) {
            lines.append(usage + String(repeating: " ", count: width - usage.count + 2) + command.meaning)
        }
        lines.append("Tab completes words, the arrow keys and Control-R find earlier statements,")
        lines.append("Control-C abandons a statement that is being typed.")
        return lines.joined(separator: "\n")
    }
}
