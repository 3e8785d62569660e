import CRDT

/// Resolves the names of expressions. Collects parameters and warnings on the way.
struct Binder {
    let source: SourceText
    var scope = Scope()
    private(set) var parameters: [NameSyntax] = []
    /// The place of a parameter in `parameters`, by its name's bytes.
    private var places: [[UInt8]: Int] = [:]
    private(set) var warnings: [DQLWarning] = []
    /// The collections whose documents are read, each once.
    private(set) var collectionsRead: [CollectionName] = []
    /// The positions of the parameters that are right sides of IN.
    private(set) var collectionParameters: Set<Int> = []
    /// The subqueries, inner ones before the outer ones.
    private(set) var subqueries: [BoundSubquery] = []
    /// The number of subqueries around the current expression.
    private(set) var subqueryDepth = 0
    /// The parameters that stand alone in a list of IN.
    private(set) var listedParameters: [ListedParameter] = []
    /// The fields whose types are looked at when they may be why something is empty.
    var expectations: [FieldExpectation] = []
    /// The parameters whose arguments need a type.
    var parameterExpectations: [ParameterExpectation] = []
    /// The parameters that values are compared with: a null there is hardly meant.
    private(set) var comparedParameters: [ComparedParameter] = []
    /// The parameters that the statement asks whether they are null: it knows what it does then.
    private(set) var testedParameters: Set<Int> = []
    /// The sums and means of the statement itself, each once.
    var aggregates: [WrittenAggregate] = []

    init(_ source: SourceText) { self.source = source }

    mutating func warn(_ code: DQLWarningCode, _ message: String, at span: SourceSpan) {
        guard warnings.count < DQLLimits.warnings else { return }
        warnings.append(source.warning(code, message, at: span))
    }

    /// How much was found to warn about.
    struct Findings {
        let warnings: Int
        let listed: Int
        let typed: Int
        let compared: Int
        let expected: Int
    }

    /// The numbers of warnings, listed parameters, parameters of a needed type and fields.
    var findings: Findings {
        Findings(
            warnings: warnings.count, listed: listedParameters.count, typed: parameterExpectations.count,
            compared: comparedParameters.count, expected: expectations.count)
    }

    /// Drops the warnings and parameters added since then.
    mutating func forget(since known: Findings) {
        warnings.removeLast(warnings.count - known.warnings)
        listedParameters.removeLast(listedParameters.count - known.listed)
        parameterExpectations.removeLast(parameterExpectations.count - known.typed)
        comparedParameters.removeLast(comparedParameters.count - known.compared)
        expectations.removeLast(expectations.count - known.expected)
    }

    /// Binds with the fields noted for another clause, or for none.
    mutating func noting<Result>(
        _ clause: FieldExpectation.Clause?, _ bind: (inout Binder) throws(DQLError) -> Result
    ) throws(DQLError) -> Result {
        let outer = scope.notes
        scope.notes = clause
        let result = try bind(&self)
        scope.notes = outer
        return result
    }

    /// A condition that chooses documents, groups or pairs.
    mutating func bind(
        condition: ExpressionSyntax, of clause: FieldExpectation.Clause = .condition
    ) throws(DQLError) -> BoundExpression {
        try noting(clause) { binder throws(DQLError) in
            try binder.bind(boolean: condition, by: "the condition")
        }
    }

    /// An expression that is used as a boolean.
    @inline(never)
    private mutating func bind(
        boolean expression: ExpressionSyntax, by user: String
    ) throws(DQLError) -> BoundExpression {
        let known = findings.warnings
        let bound = try bind(expression)
        guard findings.warnings == known else { return bound }
        expect(TypeNeed(by: user, type: .boolean, code: .literalType, isTested: true), bound, expression)
        return bound
    }

    @inline(never)
    private mutating func bind(
        booleans expressions: [ExpressionSyntax], by user: String
    ) throws(DQLError) -> [BoundExpression] {
        var bound: [BoundExpression] = []
        for expression in expressions { bound.append(try bind(boolean: expression, by: user)) }
        return bound
    }

    mutating func bind(_ expressions: [ExpressionSyntax]) throws(DQLError) -> [BoundExpression] {
        var bound: [BoundExpression] = []
        for expression in expressions { bound.append(try bind(expression)) }
        return bound
    }

    mutating func bind(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        try Preparation.check()
        if let slot = try groupKey(expression) { return .slot(slot) }
        switch expression.kind {
        case .literal(let value):
            if case .double(0) = value { warnAboutZero(expression.span) }
            return .constant(value)
        case .missing: return .constant(nil)
        case .parameter(let name): return .parameter(parameter(name.text, expression.span))
        case .name, .member, .element: return try bindPath(expression)
        case .negate(let operand): return try bindNegation(operand)
        case .not(let operand): return .not(try bind(boolean: operand, by: "NOT"))
        case .binary(let symbol, let left, let right):
            guard symbol.isComparison else {
                let link = ExpressionSyntax.ChainStep(symbol: symbol, operand: right)
                return try bindOperators(left, [link], expression.span)
            }
            return try bindComparison(symbol, left, right, expression.span)
        case .chain(let first, let links): return try bindOperators(first, links, expression.span)
        case .and(let operands): return .and(try bind(booleans: operands, by: "AND"))
        case .or(let operands): return .or(try bind(booleans: operands, by: "OR"))
        case .array(let elements): return Self.folded(.array(try bind(elements)))
        case .object(let entries): return try bindObject(entries)
        case .conditional(let operand, let branches, let otherwise):
            return try bindConditional(operand, branches, otherwise)
        case .call(let call): return try bindCall(call, expression.span)
        case .quantified(let quantified): return try bindQuantified(quantified)
        case .arrayComprehension(let array):
            return try bindComprehension(array.binding, nil, array.result, array.condition)
        case .objectComprehension(let object):
            return try bindComprehension(object.binding, object.key, object.value, object.condition)
        case .subquery(let select): return try bindSubquery(select, .value, expression.span)
        case .exists(let select): return try bindSubquery(select, .exists, expression.span)
        case .inSubquery(let value, let select, let negated):
            return try bindInSubquery(value, select, isNegated: negated, expression.span)
        default: return try bindPredicate(expression)
        }
    }

    /// Each kind has a function of its own that is never inlined: a level of nesting takes the stack of its
    /// own kind, and not that of all of them.
    @inline(never)
    private mutating func bindPredicate(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        let predicate: BoundExpression
        let isNegated: Bool
        switch expression.kind {
        case .between(_, _, _, let negated): (predicate, isNegated) = (try bindBetween(expression), negated)
        case .inList(_, _, let negated): (predicate, isNegated) = (try bindInList(expression), negated)
        case .inCollection(_, _, let negated):
            (predicate, isNegated) = (try bindInCollection(expression), negated)
        case .like(_, _, _, _, let negated): (predicate, isNegated) = (try bindLike(expression), negated)
        case .isTest(_, _, let negated): (predicate, isNegated) = (try bindTest(expression), negated)
        case .similar(_, _, _, let negated): (predicate, isNegated) = (try bindSimilar(expression), negated)
        default: Self.unbound()
        }
        return isNegated ? .not(predicate) : predicate
    }

    @inline(never)
    private mutating func bindBetween(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        guard case .between(let value, let low, let high, let negated) = expression.kind else {
            Self.unbound()
        }
        let bound = try bind(value)
        let (from, to) = (try bind(low), try bind(high))
        // If one bound is null, NOT BETWEEN can still be true because of the other.
        let others = negated ? [from, to].filter { Self.absence($0) == nil } : [from, to]
        if !warnAboutComparison(bound, others, at: expression.span) {
            noteComparison(bound, value, [(from, low), (to, high)], expression.span)
            if !negated { noteCompared(bound, [from, to], expression.span) }
        }
        return .between(bound, low: from, high: to)
    }

    @inline(never)
    private mutating func bindInList(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        guard case .inList(let value, let elements, let isNegated) = expression.kind else { Self.unbound() }
        let bound = try bind(value)
        let list = try bind(elements)
        if !warnAboutComparison(bound, list, at: expression.span) {
            if case .parameter? = list.first, list.count == 1 {
                note(bound, value, .listed(list[0]), expression.span)
            } else {
                noteComparison(bound, value, Array(zip(list, elements)), expression.span)
            }
            // The others of several elements are found all the same.
            if isNegated || list.count == 1 { noteCompared(bound, list, expression.span) }
        }
        if case .parameter(let place)? = list.first, list.count == 1 {
            listedParameters.append(ListedParameter(place: place, span: elements[0].span))
        }
        return .inList(bound, list).prepared
    }

    @inline(never)
    private mutating func bindInCollection(
        _ expression: ExpressionSyntax
    ) throws(DQLError) -> BoundExpression {
        guard case .inCollection(let value, let collection, let isNegated) = expression.kind else {
            Self.unbound()
        }
        let bound = try bind(value)
        let boundCollection = try bind(collection)
        if case .parameter(let place) = boundCollection { collectionParameters.insert(place) }
        if !warnAboutAbsence(of: bound, Self.elements(boundCollection), at: expression.span) {
            noteElement(bound, value, boundCollection, collection, expression.span)
            if case .parameter = boundCollection {
                noteCompared(bound, [boundCollection], expression.span, inList: isNegated)
            } else if isNegated {
                noteCompared(bound, Self.elements(boundCollection), expression.span)
            }
        }
        expect(TypeNeed(by: "IN", type: .array, code: .neverEqual), boundCollection, collection)
        return .inCollection(bound, boundCollection).prepared
    }

    @inline(never)
    private mutating func bindInSubquery(
        _ value: ExpressionSyntax, _ select: SelectStatement, isNegated: Bool, _ span: SourceSpan
    ) throws(DQLError) -> BoundExpression {
        let bound = try bind(value)
        let list = try bindSubquery(select, .list, span)
        if isNegated { noteCompared(bound, [list], span, inList: true) }
        return isNegated ? .not(.inCollection(bound, list)) : .inCollection(bound, list)
    }

    @inline(never)
    private mutating func bindLike(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        guard case .like(let value, let pattern, let escape, let ignoresCase, _) = expression.kind else {
            Self.unbound()
        }
        let (bound, boundPattern, boundEscape) = try bindPattern(
            ignoresCase ? "ILIKE" : "LIKE", value, pattern, escape)
        return .like(
            bound, .computed(pattern: boundPattern, escape: boundEscape, ignoresCase: ignoresCase)
        ).prepared
    }

    @inline(never)
    private mutating func bindTest(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        guard case .isTest(let value, let test, _) = expression.kind else { Self.unbound() }
        // A field that is asked whether it exists need not exist.
        let bound = try noting(nil) { binder throws(DQLError) in try binder.bind(value) }
        if case .parameter(let place) = bound { testedParameters.insert(place) }
        return test == .null ? .isNull(bound) : .isMissing(bound)
    }

    @inline(never)
    private mutating func bindSimilar(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        guard case .similar(let value, let pattern, let escape, _) = expression.kind else { Self.unbound() }
        let (bound, boundPattern, boundEscape) = try bindPattern("SIMILAR TO", value, pattern, escape)
        // An invalid pattern that is written out is an error here; a computed one gives MISSING.
        if case .constant(.string(let text)?) = boundPattern, escape == nil {
            do {
                _ = try SimilarPattern(text, isConstant: false)
            } catch {
                throw source.error(
                    .invalidPattern, "SIMILAR TO: \(error.message), at character \(error.position + 1)",
                    at: pattern.span)
            }
        }
        return .similar(bound, .computed(pattern: boundPattern, escape: boundEscape)).prepared
    }

    @inline(never)
    private mutating func bindNegation(_ operand: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        let bound = try bind(operand)
        expect(TypeNeed(by: "-", type: .number, code: .literalType), bound, operand)
        return .negate(bound)
    }

    @inline(never)
    private mutating func bindObject(
        _ entries: [ExpressionSyntax.Entry]
    ) throws(DQLError) -> BoundExpression {
        var bound: [BoundExpression.Entry] = []
        for entry in entries {
            bound.append(BoundExpression.Entry(key: entry.key, value: try bind(entry.value)))
        }
        return Self.folded(.object(bound))
    }

    private static func unbound() -> Never { preconditionFailure("every kind of expression is bound") }

    @inline(never)
    private mutating func bindComparison(
        _ symbol: BinaryOperator, _ left: ExpressionSyntax, _ right: ExpressionSyntax, _ span: SourceSpan
    ) throws(DQLError) -> BoundExpression {
        let first = try bind(left)
        let second = try bind(right)
        if !warnAboutComparison(first, [second], at: span) {
            if !noteComparison(first, left, [(second, right)], span) {
                noteComparison(second, right, [(first, left)], span)
            }
            noteCompared(first, [second], span)
            noteCompared(second, [first], span)
        }
        warnAboutNames(left, first, right, second, at: span)
        return .comparison(symbol, first, second)
    }

    /// The operands of LIKE and SIMILAR TO: texts, and one character for ESCAPE.
    private mutating func bindPattern(
        _ name: String, _ value: ExpressionSyntax, _ pattern: ExpressionSyntax, _ escape: ExpressionSyntax?
    ) throws(DQLError) -> (value: BoundExpression, pattern: BoundExpression, escape: BoundExpression?) {
        let need = TypeNeed(by: name, type: .string, code: .neverEqual)
        let bound = try bind(value)
        expect(need, bound, value)
        let boundPattern = try bind(pattern)
        if !warnAboutAbsence(of: bound, [boundPattern], at: pattern.span) {
            expect(need, boundPattern, pattern)
            noteCompared(bound, [boundPattern], pattern.span)
        }
        guard let escape else { return (bound, boundPattern, nil) }
        let boundEscape = try bind(escape)
        expect(
            TypeNeed(by: "ESCAPE", type: .string, code: .literalType, isCharacter: true), boundEscape, escape)
        return (bound, boundPattern, boundEscape)
    }

    @inline(never)
    private mutating func bindConditional(
        _ operand: ExpressionSyntax?, _ branches: [ExpressionSyntax.Branch], _ otherwise: ExpressionSyntax?
    ) throws(DQLError) -> BoundExpression {
        var boundOperand: BoundExpression?
        if let operand { boundOperand = try bind(operand) }
        var boundBranches: [BoundExpression.Branch] = []
        for branch in branches {
            let condition =
                operand == nil
                ? try bind(boolean: branch.condition, by: "WHEN") : try bind(branch.condition)
            if let operand, let boundOperand,
                !warnAboutComparison(
                    boundOperand, [condition], at: branch.condition.span)
            {
                noteComparison(
                    boundOperand, operand, [(condition, branch.condition)], branch.condition.span)
                noteCompared(boundOperand, [condition], branch.condition.span)
            }
            // A branch that tests a type may use it: nothing is expected there.
            let result = try noting(nil) { binder throws(DQLError) in try binder.bind(branch.result) }
            boundBranches.append(BoundExpression.Branch(condition: condition, result: result))
        }
        var boundOtherwise = BoundExpression.constant(.null)
        if let otherwise {
            boundOtherwise = try noting(nil) { binder throws(DQLError) in try binder.bind(otherwise) }
        }
        return .conditional(operand: boundOperand, branches: boundBranches, otherwise: boundOtherwise)
    }

    // MARK: Subqueries

    mutating func reads(_ collection: CollectionName) {
        if !collectionsRead.contains(collection) {
            collectionsRead.append(collection)
        }
    }

    /// A subquery stands for an argument that is evaluated when the statement begins. Bound once, however
    /// often the expression around it is bound.
    @inline(never)
    private mutating func bindSubquery(
        _ select: SelectStatement, _ use: BoundSubquery.Use, _ span: SourceSpan
    ) throws(DQLError) -> BoundExpression {
        if let known = subqueries.first(where: { $0.span.start == span.start && $0.span.end == span.end }) {
            return .parameter(known.place)
        }
        if let refused = scope.subqueriesRefused {
            throw source.error(.unsupportedClause, "a subquery cannot stand in \(refused)", at: span)
        }
        guard subqueryDepth < DQLLimits.subqueryDepth else {
            throw source.error(
                .nestingTooDeep, "subqueries nest more than \(DQLLimits.subqueryDepth) levels", at: span)
        }
        guard subqueries.count < DQLLimits.subqueries else {
            throw source.error(
                .tooManyTerms, "a statement has at most \(DQLLimits.subqueries) subqueries", at: span)
        }
        let outer = scope
        subqueryDepth += 1
        var analyzer = Analyzer(source: source, binder: self)
        analyzer.binder.scope = Scope(outerNames: outer.outerNames + outer.sources.map(\.name))
        analyzer.binder.expectations = []
        let plan = try analyzer.plan(select)
        let outerExpectations = expectations
        self = analyzer.binder
        let expected = expectations
        expectations = outerExpectations
        scope = outer
        subqueryDepth -= 1
        parameters.append(NameSyntax(text: "subquery \(subqueries.count + 1)", span: span))
        let place = parameters.count - 1
        subqueries.append(
            BoundSubquery(place: place, plan: plan, use: use, span: span, expectations: expected))
        return .parameter(place)
    }

    // MARK: Parameters

    /// Remembers the parameters that a value of documents is compared with.
    private mutating func noteCompared(
        _ value: BoundExpression, _ others: [BoundExpression], _ span: SourceSpan, inList: Bool = false
    ) {
        if case .constant = value { return }
        if case .parameter = value { return }
        for case .parameter(let place) in others where comparedParameters.count < DQLLimits.warnings {
            comparedParameters.append(ComparedParameter(place: place, span: span, looksInside: inList))
        }
    }

    private mutating func parameter(_ name: String, _ span: SourceSpan) -> Int {
        let key = Array(name.utf8)
        if let known = places[key] { return known }
        places[key] = parameters.count
        parameters.append(NameSyntax(text: name, span: span))
        return parameters.count - 1
    }

    /// An array or object whose parts are all known is a constant: later stages recognize it, and it is
    /// built once.
    private static func folded(_ expression: BoundExpression) -> BoundExpression {
        switch expression {
        case .array(let elements):
            let known = elements.compactMap { if case .constant(let value?) = $0 { value } else { nil } }
            return known.count == elements.count ? .constant(.array(known)) : expression
        case .object(let entries):
            let known: [ObjectValue.Entry] = entries.compactMap {
                if case .constant(let value?) = $0.value { (key: $0.key, value: value) } else { nil }
            }
            return known.count == entries.count ? .constant(.object(ObjectValue(known))) : expression
        default: return expression
        }
    }
}

/// A subquery: evaluated once, when the statement begins, and read as an argument.
struct BoundSubquery: Sendable {
    /// Its position among the statement's parameters.
    let place: Int
    let plan: SelectPlan
    let use: Use
    let span: SourceSpan
    /// Its own fields, as the statement has some.
    let expectations: [FieldExpectation]

    enum Use {
        /// The value of its single row; several rows are an error, no row is null.
        case value
        /// True if there is a row.
        case exists
        /// The values of all rows.
        case list
    }
}

/// A parameter that stands alone in a list of IN.
struct ListedParameter: Sendable {
    /// Its position among the statement's parameters.
    let place: Int
    let span: SourceSpan
}
