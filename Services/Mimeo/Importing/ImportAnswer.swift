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

/// The first line of an import's answer for a person: how many documents came from where and went where.
struct ImportHeadline {
    let text: String

    /// - Parameter answer: nil is the result for one that is not an import's.
    init?(_ answer: ObjectValue) {
        guard answer["collection"] != nil else { return nil }
        let documents = answer["documents"]?.intValue ?? 0
        let counted = "\(documents) \(documents == 1 ? "document" : "documents")"
        var parts = [
            answer["dryRun"] == true
                ? "\(counted) read, nothing written"
                : "\(counted) imported into '\(Self.string(answer["collection"]))'"
        ]
        for key in ["updated", "ignored", "skipped"] {
            if let count = answer[key]?.intValue, count > 0 { parts.append("\(count) \(key)") }
        }
        var form = Self.string(answer["format"])
        if let delimiter = answer["delimiter"] { form += ", delimiter '\(Self.string(delimiter))'" }
        text = "\(parts.joined(separator: ", ")) (\(form))"
    }

    private static func string(_ value: Value?) -> String { PlainLine.of(value?.stringValue ?? "") }
}
