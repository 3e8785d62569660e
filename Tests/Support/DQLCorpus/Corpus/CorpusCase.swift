import CRDT

/// One case of the corpus: statements run one after the other on an empty store, with their expected
/// results. See Corpus/README.md in DQLTests for the format. Every executor has to pass all cases.
public struct CorpusCase: Sendable, CustomStringConvertible {
    /// The file's name.
    public let file: String
    /// The case's name; for a `=` line, the line itself.
    public let name: String
    /// True if the case is about `DQL_STRICT_MODE`.
    public var isStrict = false
    /// The statements, in order.
    public var steps: [Step] = []

    /// File and name.
    public var description: String { "\(file): \(name)" }

    /// One statement.
    public struct Step: Sendable {
        /// The text.
        public var statement: String
        /// Its arguments.
        public var arguments = ObjectValue()
        /// Its expected result.
        public var expectation: Expectation = .success
        /// The codes of its warnings, in order; nil for none.
        public var warnings: [String]?
    }

    /// The expected result of a step.
    public enum Expectation: Sendable {
        /// Anything but an error.
        case success
        /// These rows, as JSON texts.
        case rows([String], inOrder: Bool)
        /// These mutated ids, as a JSON array.
        case ids(String)
        /// This error, at `line:column` unless empty, whose message holds the text.
        case error(code: String, position: String, text: String)
    }
}
