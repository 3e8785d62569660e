import CRDT
import Foundation

/// The object that a command prints when it is done: JSON for programs, on a terminal a line per member and
/// per warning.
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
        let warnings = (answer["warnings"]?.arrayValue ?? []).map { warning in
            let code = warning["code"]?.stringValue.map { "\($0): " } ?? ""
            return
                "warning: \(code)\(PlainLine.of(warning["message"]?.stringValue ?? JSONText.print(warning)))"
        }
        let members = answer.without("warnings").entries
        let width = members.map { PlainLine.of($0.key).count }.max() ?? 0
        let lines = members.map { member in
            let name = PlainLine.of(member.key)
            let space = String(repeating: " ", count: width - name.count + 2)
            return name + space + PlainLine.of(member.value.stringValue ?? JSONText.print(member.value))
        }
        return (lines + warnings).joined(separator: "\n")
    }
}
