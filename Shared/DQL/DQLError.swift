/// An error in a statement or its arguments. Only bad input gives one; broken internal state is a
/// precondition.
public struct DQLError: Error, Equatable, Sendable {
    /// One reference wide: every call that can throw reserves stack for the error, and the parser recurses
    /// through many of them.
    private let storage: Storage

    private indirect enum Storage: Equatable, Sendable {
        case content(Content)
    }

    private struct Content: Equatable, Sendable {
        let code: DQLErrorCode
        let message: String
        let position: SourcePosition?
        let token: String?
        let suggestion: String?
    }

    /// An error with this code.
    public init(
        _ code: DQLErrorCode, _ message: String, position: SourcePosition? = nil, token: String? = nil,
        suggestion: String? = nil
    ) {
        storage = .content(
            Content(code: code, message: message, position: position, token: token, suggestion: suggestion))
    }

    private var content: Content {
        switch storage {
        case .content(let content): content
        }
    }

    /// The stable code.
    public var code: DQLErrorCode { content.code }
    /// The message, for a person. Quotes names and tokens of the statement, never a document's content
    /// beyond its id.
    public var message: String { content.message }
    /// The place in the statement, if it is known.
    public var position: SourcePosition? { content.position }
    /// The offending token as written (shortened if long).
    public var token: String? { content.token }
    /// A word close to the offending one, or the supported spelling.
    public var suggestion: String? { content.suggestion }

    /// The line, from 1.
    public var line: Int? { position?.line }
    /// The column in characters, from 1.
    public var column: Int? { position?.column }
}

extension DQLError: CustomStringConvertible {
    /// `DQL-0105 at 1:8: message (did you mean SELECT?)`.
    public var description: String {
        let place = position.map { " at \($0.line):\($0.column)" } ?? ""
        return "\(code.rawValue)\(place): \(Self.text(message, suggestion: suggestion))"
    }

    /// A message with its suggestion. The message about a name that has to be quoted shows it already.
    public static func text(_ message: String, suggestion: String?) -> String {
        guard let suggestion, !message.hasSuffix("write \(suggestion)") else { return message }
        return message + " (did you mean \(suggestion)?)"
    }
}

/// A part of a statement that is probably not meant. It travels with the result and never changes it.
public struct DQLWarning: Equatable, Sendable {
    /// The stable code.
    public let code: DQLWarningCode
    /// The message, for a person.
    public let message: String
    /// The place in the statement, if it is known.
    public let position: SourcePosition?

    /// A warning with this code.
    public init(_ code: DQLWarningCode, _ message: String, position: SourcePosition? = nil) {
        self.code = code
        self.message = message
        self.position = position
    }
}
