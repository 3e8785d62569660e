import CRDT

/// The documents that a query of the API before DQL chooses: a condition, an order, a window.
///
/// Documents that the order does not part come by their ids, so a window is the same on every replica.
public struct LegacySelection: Sendable {
    /// A statement over the chosen documents.
    public enum Verb: Sendable {
        /// `SELECT *`.
        case select
        /// `DELETE`.
        case delete
        /// `EVICT`.
        case evict
    }

    /// The query; nil chooses all documents.
    public var condition: String?
    /// The expressions to sort by, in the language of queries; a later one parts what earlier ones do not.
    public var order: [(expression: String, isDescending: Bool)] = []
    /// The greatest number of documents; nil is no limit.
    public var limit: Int64?
    /// The number of documents to skip.
    public var offset: Int64 = 0

    /// All documents of a condition.
    public init(_ condition: String?) { self.condition = condition }

    /// True if only the condition chooses.
    public var isPlain: Bool { order.isEmpty && limit == nil && offset == 0 }

    /// The statement as DQL text; `$args.name` is the parameter `:name`. Throws `invalidCollectionName` and
    /// the parser's errors.
    public func statement(_ verb: Verb, from collection: CollectionName) throws(DQLError) -> String {
        let source = try LegacyQuery.source(collection)
        var selection = SelectionSyntax(condition: try condition.map(LegacyQuery.parse))
        // The order of removals matters only in a window.
        if verb == .select || !isPlain { selection.order = try terms() }
        selection.limit = limit.map(Self.number)
        selection.offset = offset > 0 ? Self.number(offset) : nil
        let removal = RemovalStatement(source: source, selection: selection, returning: nil)
        return switch verb {
        case .select:
            StatementPrinter.print(
                .select(
                    SelectStatement(
                        projection: .all(SourceSpan(start: 0, end: 0)), source: source, selection: selection))
            )
        case .delete: StatementPrinter.print(.delete(removal))
        case .evict: StatementPrinter.print(.evict(removal))
        }
    }

    private func terms() throws(DQLError) -> [OrderSyntax] {
        var terms: [OrderSyntax] = []
        for (expression, isDescending) in order + [(documentIDField, false)] {
            terms.append(
                OrderSyntax(
                    expression: try LegacyQuery.parse(expression), isDescending: isDescending,
                    nullsFirst: nil))
        }
        return terms
    }

    private static func number(_ number: Int64) -> ExpressionSyntax {
        ExpressionSyntax(.literal(.int(number)), SourceSpan(start: 0, end: 0))
    }
}
