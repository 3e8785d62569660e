import CRDT

/// A query as a subscription: `SELECT * FROM c [WHERE …]` with its arguments (spec 4.1).
///
/// Two subscriptions with equal `canonicalKey` match the same documents, so one evaluation serves both.
public struct SubscriptionQuery: Sendable {
    /// The statement.
    public let statement: PreparedStatement
    /// The arguments it was made with.
    public let arguments: ObjectValue
    /// The collection it asks for.
    public let collection: String
    /// The statement's canonical text and the arguments it uses: independent of white space, case of keywords
    /// and the order of arguments.
    public let canonicalKey: [UInt8]
    /// What is probably not meant.
    public let warnings: [DQLWarning]

    private let condition: BoundExpression?
    private let evaluator: Evaluator

    /// Checks the statement and binds the arguments. Throws `unsupportedSubscription` for anything but a
    /// plain SELECT of whole documents, `missingArgument`, and what compiling throws.
    ///
    /// Subscriptions are evaluated alike in strict and non-strict mode.
    public init(statement text: String, arguments: ObjectValue = ObjectValue()) throws(DQLError) {
        statement = try PreparedStatement(text)
        guard case .select(let select) = statement.statement, case .select(let plan) = statement.plan else {
            throw Self.unsupported("non-SELECT statement in sync subscription", text)
        }
        try Self.check(select, text)
        let values = try statement.bind(arguments)
        self.arguments = arguments
        collection = select.source.collection.qualifiedName
        warnings = statement.warnings + statement.unusedArguments(arguments)
        evaluator = Evaluator(ExecutionOptions(), types: statement.types)
        condition =
            if case .filter(_, let condition) = plan.input.rows { condition.specialized(values) } else { nil }
        var used = ObjectValue()
        for (parameter, value) in zip(statement.parameters, values) { used[parameter.text] = value }
        canonicalKey = CBOR.encode([
            .string(StatementPrinter.print(statement.statement)), .object(used),
        ])
    }

    /// Whether a live document belongs to the subscription. Throws `unreadableDocument`.
    public func matches(_ record: DocumentRecord) throws -> Bool {
        guard let condition else { return true }
        do {
            return try evaluator.isTrue(condition, Row(documents: [record]))
        } catch let error as CRDTError {
            throw DQLError(.unreadableDocument, "a stored document cannot be read: \(error)")
        }
    }

    private static func check(_ select: SelectStatement, _ text: String) throws(DQLError) {
        guard case .all = select.projection else {
            throw unsupported("A projection other than wildcard (*)", text)
        }
        if select.isDistinct { throw unsupported("DISTINCT", text) }
        if !select.groupKeys.isEmpty || select.having != nil { throw unsupported("Grouping", text) }
        if select.source.ids != nil { throw unsupported("USE IDS", text) }
        let selection = select.selection
        guard selection.order.isEmpty, selection.limit == nil, selection.offset == nil else {
            throw unsupported("Limit or Order by", text)
        }
    }

    private static func unsupported(_ what: String, _ text: String) -> DQLError {
        DQLError(
            .unsupportedSubscription, "Unsupported feature: \(what)",
            position: SourcePosition(line: 1, column: 1))
    }
}
