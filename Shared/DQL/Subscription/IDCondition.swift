import CRDT

/// A condition over a document's `_id` and nothing else: what a permission query is.
///
/// It says the same of a document for ever, whatever is written to it, so who may see a document does not
/// change with the document. Pure: functions that ask for the time or the request give MISSING.
public struct IDCondition: Sendable {
    /// Whether it is `true` as written: it holds for every id.
    public let isAlwaysTrue: Bool
    /// Equal for equal conditions, and independent of how they were written down.
    public let canonicalKey: [UInt8]
    private let query: SubscriptionQuery

    /// Reads a condition, of the legacy language or of DQL.
    /// - Throws: what parsing throws, and `unsupportedSubscription` for one that reads anything but `_id`,
    ///   takes arguments or has a subquery.
    public init(_ text: String, isLegacy: Bool) throws(DQLError) {
        let syntax = isLegacy ? try LegacyQuery.parse(text) : try Self.expression(text)
        let select = SelectStatement(
            projection: .all(Self.nowhere),
            source: SourceSyntax(
                collection: CollectionSyntax(
                    name: NameSyntax(text: Self.anyCollection, span: Self.nowhere), isSystem: false,
                    fields: [])),
            selection: SelectionSyntax(condition: syntax))
        query = try SubscriptionQuery(condition: select)
        guard query.statement.parameters.isEmpty else {
            throw Self.unsupported("it takes no arguments")
        }
        if case .literal(.bool(true)) = syntax.kind {
            isAlwaysTrue = true
        } else {
            guard let condition = query.condition else {
                throw Self.unsupported("it is no condition")
            }
            guard condition.readsOnlyID else { throw Self.unsupported("it may read _id and nothing else") }
            isAlwaysTrue = false
        }
        canonicalKey = query.canonicalKey
    }

    /// Whether it holds for an id.
    /// - Throws: `tooManySteps` for one that goes through too much.
    public func holds(for id: DocumentID) throws -> Bool {
        if isAlwaysTrue { return true }
        return try Self.emptyDocument.withUnsafeBytes { bytes in
            try query.matches(DocumentRecord(id: id, document: DocumentReader(bytes)))
        }
    }

    /// Nobody looks into it: the condition reads the id alone.
    private static let emptyDocument = Document().encoded()
    /// The condition is the same in every collection.
    private static let anyCollection = "c"
    private static let nowhere = SourceSpan(start: 0, end: 0)

    private static func expression(_ text: String) throws(DQLError) -> ExpressionSyntax {
        var parser = try Parser(text)
        let syntax = try parser.expression()
        guard parser.current.kind == .end else { throw parser.unexpected("the end of the query") }
        return syntax
    }

    private static func unsupported(_ what: String) -> DQLError {
        DQLError(
            .unsupportedSubscription, "Unsupported permission query: \(what)",
            position: SourcePosition(line: 1, column: 1))
    }
}

extension BoundExpression {
    /// Whether it rests on a document's id alone.
    fileprivate var readsOnlyID: Bool {
        switch self {
        case .field, .document, .conflicts, .parameter, .slot: return false
        default:
            var result = true
            _ = mapChildren { child in
                result = result && child.readsOnlyID
                return child
            }
            return result
        }
    }
}
