/// What is wrong with a statement or its arguments: bad input only, broken internal state is a precondition.
public struct DQLError: Error, Equatable, Sendable {
    /// One reference wide: every call that can throw keeps room for the error on the stack, and the parser
    /// recurses through many of them.
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

    /// An error of this code.
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
    /// For a person. Quotes names and tokens of the statement, never a document's content beyond its id.
    public var message: String { content.message }
    /// Where in the statement, if it can be said.
    public var position: SourcePosition? { content.position }
    /// The offending token as written (cut when long).
    public var token: String? { content.token }
    /// A word that is close to the offending one, or the supported spelling.
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
        let hint = suggestion.map { " (did you mean \($0)?)" } ?? ""
        return "\(code.rawValue)\(place): \(message)\(hint)"
    }
}

/// Something about a statement that is probably not meant. It travels with the result and never changes it.
public struct DQLWarning: Equatable, Sendable {
    /// The stable code.
    public let code: DQLWarningCode
    /// For a person.
    public let message: String
    /// Where in the statement, if it can be said.
    public let position: SourcePosition?

    /// A warning of this code.
    public init(_ code: DQLWarningCode, _ message: String, position: SourcePosition? = nil) {
        self.code = code
        self.message = message
        self.position = position
    }
}
