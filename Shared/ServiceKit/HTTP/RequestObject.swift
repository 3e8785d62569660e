import CRDT
import DQL

/// The JSON object of a request. Whoever writes one wants to hear of slips, so an unknown member, a key that
/// stands twice at any depth and an integer beyond 64 bits are errors that name it.
public struct RequestObject: Sendable {
    /// Its members, in their order.
    public let members: ObjectValue

    /// The reason why a body is refused, for the service's own error.
    public struct Malformed: Error, Equatable {
        /// For a person. It names members, never their values.
        public let message: String
        /// True if there are more members and elements than may be.
        var hasTooMany = false

        /// The error with a code of its own, where there is one.
        var reported: any Error { hasTooMany ? ServiceError(.tooManyValues, message) : self }
    }

    /// - Parameters:
    ///   - known: the members that the request may have.
    ///   - mayBeEmpty: true if no body at all stands for an object without members.
    ///   - values: most members and elements, at any depth: it is read where it is called.
    public init(
        _ body: some Sequence<UInt8>, known: [String], mayBeEmpty: Bool = false,
        values: Int = Limits.requestValues
    ) throws(Malformed) {
        let bytes = Array(body)
        guard !bytes.isEmpty || !mayBeEmpty else {
            try self.init(.object(ObjectValue()), known: known)
            return
        }
        try self.init(Self.value(ofJSON: bytes, within: ParsingBounds(values: values)), known: known)
    }

    static func value(ofJSON bytes: [UInt8], within bounds: ParsingBounds?) throws(Malformed) -> Value {
        do {
            return try JSONText.parseStrictly(bytes, within: bounds)
        } catch {
            throw Malformed(message: error.message, hasTooMany: error.code == .tooManyValues)
        }
    }

    init(_ value: Value, known: [String]) throws(Malformed) {
        guard case .object(let members) = value else {
            throw Malformed(message: "the body must be a JSON object")
        }
        if let unknown = members.entries.first(where: { !Names.contain(known, $0.key) }) {
            throw Malformed(message: Names.unknown("a member of this request", unknown.key, known))
        }
        self.members = members
    }
}

/// Names that a request may use, and how an unknown one is refused.
enum Names {
    static func contain(_ known: [String], _ name: String) -> Bool {
        known.contains { utf8Equal($0, name) }
    }

    /// `"arguments" is not a member of this request; did you mean "args"? It has "args" and "statement"`.
    static func unknown(_ kind: String, _ name: String, _ known: [String]) -> String {
        let shown = name.count <= Limits.shownCharacters ? name : "\(name.prefix(Limits.shownCharacters))…"
        var text = "\"\(shown)\" is not \(kind)"
        if let nearest = nearest(name, known) { text += "; did you mean \"\(nearest)\"?" }
        let list = known.sorted().map { "\"\($0)\"" }.joined(separator: ", ")
        if known.isEmpty { return text + "; it has none" }
        return text + (text.hasSuffix("?") ? " It has \(list)" : "; it has \(list)")
    }

    /// The known name that was meant: a mistyped one, or one that begins alike (`arguments`, `args`).
    private static func nearest(_ name: String, _ known: [String]) -> String? {
        if let closest = Suggestion.closest(to: name, among: known) { return closest }
        let start = name.lowercased().prefix(Limits.commonBeginning)
        return start.count < Limits.commonBeginning
            ? nil : known.first { $0.lowercased().hasPrefix(start) }
    }
}
