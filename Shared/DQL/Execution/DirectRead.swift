import CRDT
import Synchronization

/// A short way to run the commonest statements, recognized when they are prepared: whole documents of a
/// collection by their id, or by the value or a range of one field, perhaps in the order of that field. To
/// plan such a statement takes longer than to run it.
///
/// The result is always the one of the general way. The planner chooses the index (decision 0016), and its
/// choice holds while the catalog and the types of the arguments stay the same; only the bounds are computed
/// per execution. The condition is evaluated on each document that an index finds, unless the index is
/// exact. A statement of any other shape goes the general way.
final class DirectRead: Sendable {
    enum Operand {
        case known(Value)
        case argument(Int)

        init?(_ expression: BoundExpression) {
            switch expression {
            case .constant(let value?): self = .known(value)
            case .parameter(let place): self = .argument(place)
            default: return nil
            }
        }

        func value(_ arguments: [Value]) -> Value {
            switch self {
            case .known(let value): value
            case .argument(let place): arguments[place]
            }
        }
    }

    typealias Comparison = (symbol: BinaryOperator, operand: Operand)

    private enum Access {
        case id(Operand)
        /// One comparison, or one from below and one from above.
        case field([String], [Comparison])
    }

    /// The planner's choice.
    private final class Choice: Sendable {
        let catalog: UInt64
        let type: ValueClass
        /// How the index is read; nil where the statement has to go the general way.
        let scan: IndexScan?

        init(catalog: UInt64, type: ValueClass, scan: IndexScan?) {
            (self.catalog, self.type, self.scan) = (catalog, type, scan)
        }
    }

    private let plan: SelectPlan
    private let collection: CollectionName
    private let condition: BoundExpression
    private let access: Access
    /// True if there is a LIMIT or OFFSET.
    private let isBounded: Bool
    private let choice = Mutex<Choice?>(nil)

    /// nil for a statement of another shape.
    init?(_ plan: StatementPlan) {
        guard case .select(let plan) = plan, !plan.isDistinct, case .all(source: 0) = plan.projection,
            plan.input.types.count == 1, plan.input.types[0].root.children.isEmpty,
            plan.input.hint.names == nil, plan.input.directives == nil,
            case .filter(let leaf, let condition) = plan.input.rows
        else { return nil }
        self.plan = plan
        self.condition = condition
        isBounded = plan.input.bounds.limit != nil || plan.input.bounds.offset != nil
        switch leaf {
        case .idScan(let collection, source: 0, .list(let ids)):
            guard ids.count == 1, plan.input.order.isEmpty, plan.input.bounds.limit == nil,
                plan.input.bounds.offset == nil, let operand = Operand(ids[0]), Self.isID(condition, ids[0])
            else { return nil }
            self.collection = collection
            access = .id(operand)
        case .scan(let collection, source: 0):
            guard let (path, comparisons) = Self.comparisons(condition),
                Self.isInOrder(plan.input.order, of: path)
            else { return nil }
            self.collection = collection
            access = .field(path, comparisons)
        default: return nil
        }
    }

    /// Returns whether a condition says only that the id is this.
    private static func isID(_ condition: BoundExpression, _ id: BoundExpression) -> Bool {
        switch condition {
        case .comparison(.equal, .documentID(source: 0), let value),
            .comparison(.equal, let value, .documentID(source: 0)):
            value == id
        default: false
        }
    }

    /// The one field that a condition compares with known values, and how.
    static func comparisons(
        _ condition: BoundExpression, of source: Int = 0
    ) -> (path: [String], comparisons: [Comparison])? {
        let operands: [BoundExpression]
        switch condition {
        case .and(let all): operands = all
        case .between(let value, let low, let high):
            operands = [.comparison(.greaterOrEqual, value, low), .comparison(.lessOrEqual, value, high)]
        default: operands = [condition]
        }
        guard operands.count <= 2 else { return nil }
        var path: [String]?
        var found: [Comparison] = []
        for operand in operands {
            guard case .comparison(let symbol, let left, let right) = operand else { return nil }
            let comparison: Comparison
            let field: [String]
            if let known = Confinement.field(left, source), let value = Operand(right) {
                (field, comparison) = (known, (symbol, value))
            } else if let known = Confinement.field(right, source), let value = Operand(left) {
                (field, comparison) = (known, (symbol.mirrored, value))
            } else {
                return nil
            }
            guard path.map({ Confinement.samePath($0, field) }) ?? true else { return nil }
            path = field
            found.append(comparison)
        }
        guard let path else { return nil }
        switch found.map(\.symbol) {
        case [.equal], [.less], [.lessOrEqual], [.greater], [.greaterOrEqual]: return (path, found)
        case [.greater, .less], [.greaterOrEqual, .less], [.greater, .lessOrEqual],
            [.greaterOrEqual, .lessOrEqual]:
            return (path, found)
        case [.less, .greater], [.less, .greaterOrEqual], [.lessOrEqual, .greater],
            [.lessOrEqual, .greaterOrEqual]:
            return (path, found.reversed())
        default: return nil
        }
    }

    private static func isInOrder(_ terms: [SortTerm], of path: [String]) -> Bool {
        guard terms.count <= 1 else { return false }
        return terms.allSatisfy { term in
            Confinement.field(term.expression, 0).map { Confinement.samePath($0, path) } ?? false
        }
    }

    /// Hands out the statement's rows; false, before anything was done, if it has to go the general way.
    func run(
        _ documents: any DocumentSource, _ context: ExecutionContext, _ body: (ResultRow) throws -> Bool
    ) throws -> Bool {
        guard !context.options.strictReads else { return false }
        switch access {
        case .id(let operand):
            // A document found by this id has it: nothing is left to compare.
            guard let id = Self.id(operand.value(context.arguments)) else { return false }
            try context.meter.visit()
            var isFound = false
            try documents.lookup(collection, id) {
                try context.meter.pass($0)
                isFound = true
                _ = try body(ResultRow(document: $0, context))
            }
            context.meter.foundNothing = !isFound
            return true
        case .field(let path, let comparisons):
            guard context.options.usesIndexes, !context.options.parameters.hasDefaultDirectives,
                let indexed = documents.indexed,
                let scan = try scan(path, comparisons, indexed, context)
            else { return false }
            let isImplied = scan.index.isExact && Self.areShort(comparisons, context.arguments)
            try run(scan, isImplied: isImplied, indexed, context, body)
            return true
        }
    }

    /// The document that the statement looks up with these arguments; nil if it reads in another way.
    fileprivate func soleDocument(_ arguments: [Value]) -> DocumentKey? {
        guard case .id(let operand) = access, let id = Self.id(operand.value(arguments)) else { return nil }
        return DocumentKey(collection: collection, id: id)
    }

    private static func id(_ value: Value) -> DocumentID? {
        switch value {
        case .string, .int: try? DocumentID(value)
        default: nil
        }
    }

    // MARK: By a field

    private func scan(
        _ path: [String], _ comparisons: [Comparison], _ indexed: any IndexedSource,
        _ context: ExecutionContext
    ) throws -> IndexScan? {
        let first = comparisons[0].operand.value(context.arguments)
        let type = ValueClass(of: first)
        guard type == .number || type == .string else { return nil }
        let range: IndexRange
        if comparisons[0].symbol == .equal {
            range = IndexRange(equal: [first])
        } else {
            var bounds = KeyRange(from: .beforeClass(type), to: .afterClass(type))
            for comparison in comparisons {
                let value = comparison.operand.value(context.arguments)
                guard ValueClass(of: value) == type else { return nil }
                switch comparison.symbol {
                case .greater: bounds = KeyRange(from: .after(value), to: bounds.upper)
                case .greaterOrEqual: bounds = KeyRange(from: .before(value), to: bounds.upper)
                case .less: bounds = KeyRange(from: bounds.lower, to: .before(value))
                default: bounds = KeyRange(from: bounds.lower, to: .after(value))
                }
            }
            // An empty range, or one of a single value, is planned in another way.
            if comparisons.count == 2 {
                let last = comparisons[1].operand.value(context.arguments)
                guard ValueOrder.collate(first, last) < 0 else { return nil }
            }
            range = IndexRange(next: bounds)
        }
        let version = try indexed.catalogVersion(of: collection)
        if let known = choice.withLock({ $0 }), known.catalog == version, known.type == type {
            return known.scan.map { $0.replacing(ranges: [range]) }
        }
        // Planning counts entries and documents.
        try context.meter.requireNoBudget()
        let planned = try planned(range, path, indexed, context)
        let made = Choice(catalog: version, type: type, scan: planned)
        choice.withLock { $0 = made }
        return planned
    }

    /// The scan that the planner chooses for the statement, if it is a scan of one index by this range.
    private func planned(
        _ range: IndexRange, _ path: [String], _ indexed: any IndexedSource, _ context: ExecutionContext
    ) throws -> IndexScan? {
        let plan = plan.specialized(context.arguments)
        let planned = try RowPlanner(documents: indexed, options: context.options).plan(
            plan.input, plan.projection, isLimited: plan.input.bounds.limit != nil)
        guard planned.isOrdered == !plan.input.order.isEmpty,
            case .filter(.access(_, _, path: .index(let scan)), _) = planned.input.rows,
            Confinement.samePath(scan.index.keys[0].path, path), scan.ranges == [range]
        else { return nil }
        return scan
    }

    /// Returns whether all values are too short for an index to cut them.
    static func areShort(_ comparisons: [Comparison], _ arguments: [Value]) -> Bool {
        comparisons.allSatisfy { comparison in
            guard case .string(let text) = comparison.operand.value(arguments) else { return true }
            return text.utf8.count <= DQLLimits.uncutBytes
        }
    }

    /// - Parameter isImplied: the index holds its documents in the exact order of the field, so the
    ///   condition, which is about that field only, holds for every document in the range.
    private func run(
        _ scan: IndexScan, isImplied: Bool, _ indexed: any IndexedSource, _ context: ExecutionContext,
        _ body: (ResultRow) throws -> Bool
    ) throws {
        let window = isBounded ? try Window(plan.input.bounds, context) : Window.open
        guard window.limit > 0 else { return }
        var walk = Walk(isImplied ? nil : condition.specialized(context.arguments), window, plan, context)
        if scan.isOrdered || scan.isOneKey {
            try indexed.documents(of: scan) { try walk.visit($0, body) }
        } else {
            let runner = AccessRunner(source: indexed, collection: collection, meter: context.meter)
            try runner.run(.index(scan)) { try walk.visit($0, body) }
        }
        context.meter.foundNothing = walk.isEmpty
    }
}

extension PreparedStatement {
    /// The document that an execution looks up, if it reads no other one: a source may fetch it at once with
    /// its snapshot. Nil if it reads in another way, or cannot be executed.
    public func soleDocument(_ arguments: ObjectValue) -> DocumentKey? {
        direct.flatMap { direct in (try? bind(arguments)).flatMap { direct.soleDocument($0) } }
    }
}

/// Passes the documents of one execution to the caller.
private struct Walk {
    private let condition: BoundExpression?
    private let test: DocumentTest?
    private let window: Window
    private let plan: SelectPlan
    private let context: ExecutionContext
    private let meter: ExecutionMeter
    private var skipped = 0
    private var taken = 0

    /// True if no document was handed on or skipped.
    var isEmpty: Bool { skipped + taken == 0 }

    /// - Parameter condition: evaluated on each document.
    init(
        _ condition: BoundExpression?, _ window: Window, _ plan: SelectPlan, _ context: ExecutionContext
    ) {
        self.condition = condition
        test = condition.flatMap { DocumentTest.prepare($0, source: 0) }
        self.window = window
        self.plan = plan
        self.context = context
        meter = context.meter
    }

    /// Hands a document on; false when that was the last one.
    @inline(__always)
    mutating func visit(_ record: DocumentRecord, _ body: (ResultRow) throws -> Bool) throws -> Bool {
        try meter.visit()
        try meter.pass(record)
        if condition != nil, try !holds(record) { return true }
        if skipped < window.offset {
            skipped += 1
            return true
        }
        taken += 1
        return try body(ResultRow(document: record, context)) && taken < window.limit
    }

    @inline(never)
    private func holds(_ record: DocumentRecord) throws -> Bool {
        if let holds = test?.holds(record.document) { return holds }
        guard let condition else { return true }
        let evaluator = Evaluator(context.options, types: plan.input.types)
        return try evaluator.isTrue(condition, Row(documents: [record], meter: meter))
    }
}
