import CRDT
import Foundation

/// The object that a command prints when it is done: JSON for programs, on a terminal a line per member and
/// per warning. An import's has a first line that counts, its columns, and the first documents of a dry run
/// (`ImportAnswer.swift`).
struct CommandReport {
    private let answer: ObjectValue

    init(_ answer: ObjectValue) { self.answer = answer }

    /// The report of an object; another value stands alone.
    init(_ answer: Value) {
        self.answer = answer.objectValue ?? ObjectValue([(key: "answer", value: answer)])
    }

    /// Writes to standard output or standard error.
    func write(to descriptor: Int32) {
        let writer = descriptor == STDERR_FILENO ? LineWriter.standardError : .standardOutput
        if isatty(descriptor) == 1 { writer.write(text: text) } else { writer.write(.object(answer)) }
    }

    /// The lines for a person.
    var text: String {
        let lines = importLines ?? Self.aligned(answer.without("warnings"))
        return (lines + warnings).joined(separator: "\n")
    }

    private var warnings: [String] {
        (answer["warnings"]?.arrayValue ?? []).map { warning in
            let code = warning["code"]?.stringValue.map { "\(PlainLine.of($0)): " } ?? ""
            return
                "warning: \(code)\(PlainLine.of(warning["message"]?.stringValue ?? JSONText.print(warning)))"
        }
    }

    /// The first line that counts, the columns and the first documents of an import; nil for another answer.
    private var importLines: [String]? {
        guard let headline = ImportHeadline(answer)?.text else { return nil }
        let columns = Self.aligned(answer["columns"]?.objectValue ?? ObjectValue()).map { "  \($0)" }
        let first = answer["first"]?.arrayValue ?? []
        return [headline] + columns + first.map { PlainLine.of(JSONText.print($0)) }
    }

    /// A line per member, with the values beneath each other.
    private static func aligned(_ members: ObjectValue) -> [String] {
        let width = members.entries.map { PlainLine.of($0.key).count }.max() ?? 0
        return members.entries.map { member in
            let name = PlainLine.of(member.key)
            let space = String(repeating: " ", count: width - name.count + 2)
            return name + space + PlainLine.of(member.value.stringValue ?? JSONText.print(member.value))
        }
    }
}
