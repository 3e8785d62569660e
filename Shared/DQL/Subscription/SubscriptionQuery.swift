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
    public let collection: CollectionName
    /// The statement's canonical text and the arguments it uses: independent of white space, case of keywords
    /// and the order of arguments.
    public let canonicalKey: [UInt8]
    /// Parts of the statement that are probably not meant.
    public let warnings: [DQLWarning]
    /// Fields that have to equal known values for a document to match; the condition may ask for more.
    public let equalities: [EqualityPredicate]
    /// True if ORDER BY, LIMIT or OFFSET say which documents come first. They do not change which documents
    /// match.
    public let isWindowed: Bool

    /// The condition of WHERE; nil if there is none.
    let condition: BoundExpression?
    /// True if the condition goes through the elements of a document. Its cost then depends on the document,
    /// up to `DQLLimits.subscriptionSteps`.
    public let goesThroughElements: Bool
    /// True if the statement declares types of fields: the same path may then give another value than in a
    /// query that declares none.
    public let declaresTypes: Bool
    private let evaluator: Evaluator

    /// Checks the statement and binds the arguments. Throws `unsupportedSubscription` for anything but a
    /// plain SELECT of whole documents, `missingArgument`, and the compiler's errors.
    ///
    /// `isRestricted` is `dql_restrict_subscriptions` of the peer that registers the subscription: without
    /// it, ORDER BY, LIMIT and OFFSET are accepted. The receiver of a subscription does not restrict it.
    /// Subscriptions are evaluated alike in strict and non-strict mode.
    public init(
        statement text: String, arguments: ObjectValue = ObjectValue(), isRestricted: Bool = true
    ) throws(DQLError) {
        try self.init(try Parser.parse(text), text, arguments, isRestricted: isRestricted)
    }

    /// The same for a query of the legacy language, whose `$args.name` is the argument `name`.
    public init(
        legacy query: String, from collection: CollectionName, arguments: ObjectValue = ObjectValue()
    ) throws(DQLError) {
        let select = try LegacyQuery.select(query, from: collection)
        try self.init(
            .select(select), StatementPrinter.print(.select(select)), arguments, isRestricted: true)
    }

    /// A statement of one collection and a condition, without arguments.
    init(condition select: SelectStatement) throws(DQLError) {
        try self.init(
            .select(select), StatementPrinter.print(.select(select)), ObjectValue(), isRestricted: true)
    }

    private init(
        _ statement: Statement, _ text: String, _ arguments: ObjectValue, isRestricted: Bool
    ) throws(DQLError) {
        let source = SourceText(text: text)
        guard case .select(let select) = statement else {
            throw Self.unsupported("non-SELECT statement in sync subscription", at: source.beginning)
        }
        if let (feature, span) = Self.refused(select, isRestricted) {
            throw Self.unsupported(feature, at: source.position(of: span))
        }
        self.statement = try PreparedStatement(statement, of: text)
        if let subquery = self.statement.subqueries.first {
            throw Self.unsupported("Subquery", at: source.position(of: subquery.span))
        }
        guard case .select(let plan) = self.statement.plan else {
            preconditionFailure("a SELECT is planned as one")
        }
        let values = try self.statement.bind(arguments)
        self.arguments = arguments
        collection = select.source.collection.qualifiedName
        warnings = self.statement.warnings + self.statement.argumentWarnings(arguments, values)
        let selection = select.selection
        isWindowed = !selection.order.isEmpty || selection.limit != nil || selection.offset != nil
        evaluator = Evaluator(ExecutionOptions(), types: plan.input.types)
        condition =
            if case .filter(_, let condition) = plan.input.rows { condition.specialized(values) } else { nil }
        goesThroughElements = condition?.needsMeter ?? false
        declaresTypes = plan.input.types.contains { !$0.root.children.isEmpty }
        equalities = condition.map { EqualityPredicate.all(in: $0) } ?? []
        var used = ObjectValue()
        for (parameter, value) in zip(self.statement.parameters, values) { used[parameter.text] = value }
        canonicalKey = CBOR.encode([.string(StatementPrinter.print(statement)), .object(used)])
    }

    /// Returns whether a live document belongs to the subscription. Throws `unreadableDocument`.
    ///
    /// A document in which the condition would go through more than `DQLLimits.subscriptionSteps` elements
    /// does not match, on any replica. Otherwise anybody who may write a document could end the sync of all
    /// peers with such a subscription.
    ///
    /// - Parameter interruption: asked now and then why to stop; the answer ends the evaluation with
    ///   `cancelled` or `timeout`. A condition that does not go through elements asks nobody: whoever tests
    ///   many documents asks between them.
    public func matches(
        _ record: DocumentRecord, interruption: (@Sendable () -> Interruption?)? = nil
    ) throws -> Bool {
        guard let condition else { return true }
        do {
            let meter =
                goesThroughElements
                ? ExecutionMeter(
                    steps: DQLLimits.subscriptionSteps, textBytes: statement.text.utf8.count,
                    interruption: interruption) : nil
            return try evaluator.isTrue(condition, Row(documents: [record], meter: meter))
        } catch let error as DQLError where error.code == .tooManySteps {
            return false
        } catch let error as CRDTError {
            throw DQLError(.unreadableDocument, "a stored document cannot be read: \(error)")
        }
    }

    /// The documents that a windowed subscription begins with: its matches in the order of ORDER BY, within
    /// LIMIT and OFFSET.
    public func initialDocumentIDs(
        in documents: any DocumentSource, options: ExecutionOptions = ExecutionOptions()
    ) throws -> [DocumentID] {
        guard case .select(let plan) = statement.plan else {
            preconditionFailure("a SELECT is planned as one")
        }
        var options = options
        options.strictReads = false
        let context = ExecutionContext(statement.source, options, try statement.bind(arguments))
        return try TargetExecutor(plan.input, documents, context).documentIDs()
    }

    // MARK: Supported queries

    /// The first part of a SELECT that a subscription cannot have.
    private static func refused(
        _ select: SelectStatement, _ isRestricted: Bool
    ) -> (feature: String, span: SourceSpan)? {
        if select.isDistinct { return ("DISTINCT", select.distinctSpan) }
        guard case .all = select.projection else {
            return ("A projection other than wildcard (*)", select.projection.span)
        }
        if let join = select.source.joins.first { return ("Joining", join.span) }
        if let ids = select.source.ids {
            return ("USE IDS", ids.expressions.first?.span ?? select.source.collection.name.span)
        }
        if let grouping = select.groupKeys.first ?? select.having { return ("Grouping", grouping.span) }
        let selection = select.selection
        let bound = selection.order.first?.expression ?? selection.limit ?? selection.offset
        guard isRestricted, let bound else { return nil }
        return ("Limit or Order by", bound.span)
    }

    private static func unsupported(_ what: String, at position: SourcePosition) -> DQLError {
        DQLError(.unsupportedSubscription, "Unsupported feature: \(what)", position: position)
    }
}
