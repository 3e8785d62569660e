/// A text that is neither JSON nor a table, although it may look so: JSON with a program around it, or a
/// page. It is told by name, so that nobody gets documents of it by accident.
struct ScriptText: Equatable {
    /// The program's part of the text, with the remedy.
    let description: String

    /// Prefixes that keep a page of another origin from running the answer as a script.
    private static let guards = [")]}'", "while(1);", "while (1);", "for(;;);", "for (;;);", "throw 1;"]

    /// - Parameter head: the beginning of the text, from the first byte that is no space.
    /// - Returns: nil for a text that is none.
    init?(_ head: [UInt8]) {
        let text = String(decoding: head, as: UTF8.self)
        if let prefix = Self.guards.first(where: text.hasPrefix) {
            description =
                "begins with '\(prefix)', a guard against inclusion as a script; remove it, and import the "
                + "JSON after it"
            return
        }
        if ["<!doctype", "<html", "<?xml"].contains(where: text.lowercased().hasPrefix) {
            description = "is HTML or XML, perhaps a server's page about an error, and no import reads it"
            return
        }
        var rest = Substring(text)
        // Some writers put an empty comment before the call.
        if rest.hasPrefix("/*"), let end = rest.firstRange(of: "*/") { rest = rest[end.upperBound...] }
        rest = rest.drop(while: \.isWhitespace)
        let words = rest.prefix { $0.isLetter || $0.isNumber || "_$.[]'\" ".contains($0) }
        guard let first = words.first, first.isLetter || first == "_" || first == "$" else { return nil }
        rest = rest.dropFirst(words.count)
        guard let sign = rest.first, let value = rest.dropFirst().first(where: { !$0.isWhitespace }),
            value == "{" || value == "["
        else { return nil }
        let name = ImportNotes.cut(String(words.split(separator: " ").last ?? ""))
        switch sign {
        case "(":
            description =
                "is JSONP, a call of '\(name)' with JSON; ask its server without the callback, or remove the "
                + "call"
        case "=":
            description =
                "is JavaScript, which sets '\(name)' to JSON; remove what stands before '\(value)'"
        default: return nil
        }
    }

    func error(_ name: String) -> MimeoError {
        MimeoError(.fileMalformed, "\(name): the text \(description)")
    }
}
