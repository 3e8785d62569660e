/// The reference page of the functions, generated from the table: `Shared/DQL/Functions.md`.
public enum FunctionReference {
    /// The page in Markdown.
    public static var page: String {
        var lines = [introduction]
        for group in FunctionTable.groups {
            lines += ["", "## \(group.title)"]
            for function in group.functions { lines += [""] + section(function) }
            if group.functions.contains(where: { $0.name == "date_format" }) { lines += ["", formats] }
            if group.functions.contains(where: { $0.name == "regexp_like" }) { lines += ["", patterns] }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func section(_ function: FunctionDefinition) -> [String] {
        var lines = ["### `\(function.signature)`", "", function.semantics]
        let typed = function.parameters.filter { $0.type != .any }
        if !typed.isEmpty {
            var seen: [String] = []
            for parameter in typed {
                let text = "`\(parameter.name)` \(parameter.type.rawValue)"
                if !seen.contains(text) { seen.append(text) }
            }
            lines += ["", "Takes: " + seen.joined(separator: ", ") + "."]
        }
        if !function.aliases.isEmpty {
            lines += ["", "Also: " + function.aliases.map { "`\($0)`" }.joined(separator: ", ") + "."]
        }
        return lines + ["", "    \(function.example.call)  →  \(function.example.result)"]
    }

    private static let introduction = """
        # Functions of DQL

        Generated from the function table; do not edit. This command writes it again:
        `MIMEO_WRITE_REFERENCE=1 swift test --filter FunctionTableTests`

        Names may be written in any case. A function never fails: unless its text says otherwise, an argument
        that is MISSING or of a wrong type gives MISSING, and one that is NULL gives NULL (MISSING wins). A
        literal that a function never takes gets a warning. Brackets mark optional arguments. Lengths and
        places count characters (Unicode scalars), places from 0. A result longer than
        \(DQLLimits.resultBytes) bytes, or of more than \(DQLLimits.resultElements) elements, is MISSING.
        `…` stands for more arguments of the same kind, up to \(DQLLimits.callArguments) in all.
        """

    private static let patterns = """
        Regular expressions: `.`, classes (`[a-z]`, `[^a-z]`, `[[:alpha:]]`), `\\d \\w \\s \\b` and their
        opposites (ASCII), `^ $ \\A \\z`, groups, `|`, `* + ? {n} {n,} {n,m}` with their lazy variants,
        `(?i)` and `(?i:…)`, `\\n \\r \\t \\f \\v \\xHH \\uHHHH \\x{H…}`. In a string literal a
        backslash is written twice. At most \(DQLLimits.patternCharacters) characters, and
        \(DQLLimits.patternInstructions) steps with repetitions written out.
        """

    private static let formats = """
        Formats with letters: `YYYY`, `YY`, `MM`, `DD`, `hh` (0 to 23), `HH` (1 to 12), `mm`, `ss`, a run of
        `s` after a point (a fraction of so many digits), `PP` and `pp` (AM, am), `TZD` (`+02:00`), `TZN` (the
        zone's name). With directives: `%Y %y %m %d %e %H %I %M %S %L %f %.3f %p %P %z %:z %Z %B %b %A %a %j`
        `%u %w %s %F %D %T %R %+ %%`. The empty format is ISO 8601. Everything else stands for itself.
        """
}
