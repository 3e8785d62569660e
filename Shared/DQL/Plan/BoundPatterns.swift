import CRDT

/// The pattern of a LIKE: prepared if it is known, otherwise built for each document.
enum LikeMatcher: Equatable, Sendable {
    case prepared(LikePattern)
    indirect case computed(pattern: BoundExpression, escape: BoundExpression?, ignoresCase: Bool)

    func mapChildren(_ transform: (BoundExpression) -> BoundExpression) -> LikeMatcher {
        switch self {
        case .prepared: self
        case .computed(let pattern, let escape, let ignoresCase):
            .computed(pattern: transform(pattern), escape: escape.map(transform), ignoresCase: ignoresCase)
        }
    }

    /// The single character of an ESCAPE; nil for any other value.
    static func escapeCharacter(_ value: Value?) -> Unicode.Scalar? {
        guard let scalars = value?.stringValue?.unicodeScalars, scalars.count == 1 else { return nil }
        return scalars.first
    }
}

/// The pattern of a SIMILAR TO: prepared if it is known, otherwise built for each document.
enum SimilarMatcher: Equatable, Sendable {
    case prepared(SimilarPattern)
    indirect case computed(pattern: BoundExpression, escape: BoundExpression?)

    func mapChildren(_ transform: (BoundExpression) -> BoundExpression) -> SimilarMatcher {
        switch self {
        case .prepared: self
        case .computed(let pattern, let escape):
            .computed(pattern: transform(pattern), escape: escape.map(transform))
        }
    }

    /// Prepared if pattern and escape are known and valid; an invalid one stays as it is and gives MISSING.
    var prepared: SimilarMatcher {
        guard case .computed(.constant(.string(let text)?), let escape) = self else { return self }
        var character: Unicode.Scalar? = LikePattern.defaultEscape
        if let escape {
            guard case .constant(let value) = escape, let scalar = LikeMatcher.escapeCharacter(value) else {
                return self
            }
            character = scalar
        }
        guard let pattern = try? SimilarPattern(text, escape: character) else { return self }
        return .prepared(pattern)
    }
}
