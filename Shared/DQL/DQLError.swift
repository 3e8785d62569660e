/// What is wrong with a statement or its arguments: bad input only, broken internal state is a precondition.
public struct DQLError: Error, Equatable, Sendable {
    /// The stable code.
    public let code: DQLErrorCode
    /// For a person. Quotes names and tokens of the statement, never a document's content beyond its id.
    public let message: String
    /// Where in the statement, if it can be said.
    public let position: SourcePosition?
    /// The offending token as written (cut when long).
    public let token: String?
    /// A word that is close to the offending one, or the supported spelling.
    public let suggestion: String?

    /// An error of this code.
    public init(
        _ code: DQLErrorCode, _ message: String, position: SourcePosition? = nil, token: String? = nil,
        suggestion: String? = nil
    ) {
        self.code = code
        self.message = message
        self.position = position
        self.token = token
        self.suggestion = suggestion
    }

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
