import ArgumentParser
import CRDT

/// The form of an import's answer.
enum AnswerForm: String, CaseIterable, ExpressibleByArgument {
    case json, text

    /// The value of `--answer`, else a text for a person at a terminal and JSON for a program.
    static func chosen(_ given: AnswerForm?, isTerminal: Bool) -> AnswerForm {
        given ?? (isTerminal ? .text : .json)
    }
}

/// The answer of an import as a text for a person: the counts, the types of the columns, the warnings.
struct ImportSummary {
    let text: String

    /// - Parameter answer: the same as JSON.
    init(_ answer: ObjectValue) {
        func count(_ key: String) -> Int64 { answer[key]?.intValue ?? 0 }
        let documents = count("documents")
        let isDry = answer["dryRun"] == true
        let counted = "\(documents) \(documents == 1 ? "document" : "documents")"
        var parts = [
            isDry
                ? "\(counted) read, nothing written"
                : "\(counted) imported into '\(Self.string(answer["collection"]))'"
        ]
        for key in ["updated", "ignored", "skipped"] where count(key) > 0 {
            parts.append("\(count(key)) \(key)")
        }
        var form = Self.string(answer["format"])
        if let delimiter = answer["delimiter"] { form += ", delimiter '\(Self.string(delimiter))'" }
        var lines = ["\(parts.joined(separator: ", ")) (\(form))"]
        let columns = answer["columns"]?.objectValue?.entries ?? []
        let names = columns.map { PlainLine.of($0.key) }
        let width = names.map(\.count).max() ?? 0
        for (name, column) in zip(names, columns) {
            let space = String(repeating: " ", count: width - name.count)
            lines.append("  \(name)\(space)  \(Self.string(column.value))")
        }
        for document in answer["first"]?.arrayValue ?? [] {
            lines.append(PlainLine.of(JSONText.print(document)))
        }
        for warning in answer["warnings"]?.arrayValue ?? [] {
            lines.append("warning \(Self.string(warning["code"])): \(Self.string(warning["message"]))")
        }
        text = lines.joined(separator: "\n")
    }

    private static func string(_ value: Value?) -> String { PlainLine.of(value?.stringValue ?? "") }
}
