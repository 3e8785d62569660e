import CRDT

/// `field = value` as a condition that every match satisfies: a matcher of many subscriptions looks
/// documents up by it instead of asking each subscription.
public struct EqualityPredicate: Sendable {
    /// The field, from the outermost name; `["_id"]` is the document's id.
    public let path: [String]
    /// The value the field has to equal.
    public let value: Value
    /// The value as bytes that are equal exactly when `=` says so (1 and 1.0 have the same).
    public let key: [UInt8]

    private let access: BoundExpression
    private static let evaluator = Evaluator(ExecutionOptions(), types: [.none])

    /// The key of a document: it can match only if this is `key`. nil when the field is not there or null.
    public func key(of record: DocumentRecord) throws -> [UInt8]? {
        switch try Self.evaluator.evaluate(access, Row(documents: [record])) {
        case nil, .null?: nil
        case let value?: ValueKey(value).bytes
        }
    }

    /// The equality predicates among the operands of a condition's AND.
    static func all(in condition: BoundExpression) -> [EqualityPredicate] {
        switch condition {
        case .and(let operands): operands.flatMap(all)
        case .comparison(.equal, let field, .constant(let value?)),
            .comparison(.equal, .constant(let value?), let field):
            predicate(field, value).map { [$0] } ?? []
        default: []
        }
    }

    private static func predicate(_ field: BoundExpression, _ value: Value) -> EqualityPredicate? {
        if case .null = value { return nil }
        let path: [String]
        switch field {
        case .field(let access): path = access.path
        case .documentID: path = [documentIDField]
        default: return nil
        }
        return EqualityPredicate(path: path, value: value, key: ValueKey(value).bytes, access: field)
    }
}
