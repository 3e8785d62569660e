import CRDT
import DQL

/// A warning of an answer: its stable code, where it has one, and a text for a person.
struct AnswerWarning: Sendable, Equatable {
    let code: String?
    let text: String

    init(_ text: String) { (code, self.text) = (nil, text) }

    init(_ warning: DQLWarning) { (code, text) = (warning.code.rawValue, warning.message) }

    /// As an answer has it, `{"code", "description"}`, or only a text; nil for anything else.
    init?(_ value: Value) {
        guard let text = value.stringValue ?? value["description"]?.stringValue else { return nil }
        (code, self.text) = (value["code"]?.stringValue, text)
    }

    /// As an answer has it.
    var value: Value {
        var members = ObjectValue()
        if let code { members["code"] = .string(code) }
        members["description"] = .string(text)
        return .object(members)
    }
}
