import CRDT

/// A field of the statement whose types are looked at when they may be why something is empty: it is compared
/// with values of known types, used where one type is needed, or only read.
struct FieldExpectation: Sendable {
    let field: NotedField
    let wanted: Wanted
    let clause: Clause
    /// The comparison, or the field itself.
    let span: SourceSpan

    enum Wanted: Sendable {
        /// A value that can be compared with one of these.
        case comparable([Side])
        /// A value that can be compared with an argument that stands alone in a list.
        case listed(BoundExpression)
        /// A value that can be compared with an element of this array.
        case element(of: BoundExpression)
        case type(TypeNeed)
        /// Any value: the field exists.
        case presence
    }

    /// The other side of a comparison.
    enum Side: Sendable {
        /// A constant or an argument.
        case value(BoundExpression)
        case field(NotedField)
        /// A computed value of a type that is always the same.
        case type(StaticType)
    }

    /// The clause decides when an expectation is looked at.
    enum Clause: Sendable {
        /// WHERE, and ON of an inner join: when no document fulfilled it.
        case condition
        /// HAVING: when no group fulfilled it.
        case having
        /// A part that does not choose rows, such as a projection: when the first row does not fit.
        case row
    }
}

/// A field, a document's id, or a part of an element of a list in a document.
struct NotedField: Sendable, Equatable {
    let expression: BoundExpression
    /// The list that the variable goes through, if the expression is about its elements.
    let list: ElementList?
    /// The field as written.
    let name: String
    let source: Int
    let collection: CollectionName

    struct ElementList: Sendable, Equatable {
        /// The number of the variable.
        let local: Int
        let expression: BoundExpression
    }

    static func == (left: NotedField, right: NotedField) -> Bool {
        left.source == right.source && left.expression == right.expression && left.list == right.list
    }
}

extension Binder {
    // MARK: Types

    /// The type of an expression, also of a group's key or aggregate.
    func staticType(_ expression: BoundExpression) -> StaticType? {
        guard case .slot(let slot) = expression, let grouping = scope.grouping else {
            return StaticType(expression)
        }
        if slot < grouping.keys.count { return StaticType(grouping.keys[slot]) }
        let aggregate = grouping.aggregates[slot - grouping.keys.count]
        switch aggregate.kind {
        case .min, .max: return aggregate.argument.flatMap { StaticType($0) }
        case .count, .sum, .avg, .median, .mid: return .number
        }
    }

    /// The expression over documents that has the types of a group's key, or of the values that MIN or MAX
    /// chooses from.
    private func ungrouped(_ expression: BoundExpression) -> BoundExpression {
        guard case .slot(let slot) = expression, let grouping = scope.grouping else { return expression }
        if slot < grouping.keys.count { return grouping.keys[slot] }
        let aggregate = grouping.aggregates[slot - grouping.keys.count]
        guard aggregate.kind == .min || aggregate.kind == .max else { return expression }
        return aggregate.argument ?? expression
    }

    // MARK: Comparisons

    /// Remembers a field that is compared with other values. Returns whether there is one: a value of a
    /// known type needs no look at documents, and one of an unknown type allows none.
    @discardableResult
    mutating func noteComparison(
        _ value: BoundExpression, _ written: ExpressionSyntax,
        _ others: [(bound: BoundExpression, written: ExpressionSyntax)], _ span: SourceSpan
    ) -> Bool {
        guard scope.notes != nil, staticType(value) == nil, !others.isEmpty else { return false }
        var sides: [FieldExpectation.Side] = []
        for other in others {
            switch other.bound {
            case .constant, .parameter: sides.append(.value(other.bound))
            default:
                if let type = staticType(other.bound) {
                    sides.append(.type(type))
                } else if let field = notedField(other.bound, other.written) {
                    sides.append(.field(field))
                } else {
                    return false
                }
            }
        }
        return note(value, written, .comparable(sides), span)
    }

    /// Remembers a field that is searched in an array, or an array field that a known value is searched in.
    @inline(never)
    mutating func noteElement(
        _ value: BoundExpression, _ written: ExpressionSyntax, _ list: BoundExpression,
        _ writtenList: ExpressionSyntax, _ span: SourceSpan
    ) {
        switch list {
        case .constant, .parameter:
            if staticType(value) == nil { note(value, written, .element(of: list), span) }
        default:
            guard let field = notedField(list, writtenList), field.list == nil else { return }
            let side: FieldExpectation.Side
            switch value {
            case .constant, .parameter: side = .value(value)
            default:
                guard let type = staticType(value) else { return }
                side = .type(type)
            }
            // Its elements are those of a variable that no expression names.
            let elements = NotedField(
                expression: .local(scope.locals.count),
                list: NotedField.ElementList(local: scope.locals.count, expression: list),
                name: "element of \(field.name)", source: field.source, collection: field.collection)
            add(elements, .comparable([side]), span)
        }
    }

    // MARK: Fields

    /// Remembers a field; false if the expression is none, or if fields of this clause are not noted.
    @discardableResult
    mutating func note(
        _ field: BoundExpression, _ written: ExpressionSyntax, _ wanted: FieldExpectation.Wanted,
        _ span: SourceSpan
    ) -> Bool {
        guard scope.notes != nil, let field = notedField(field, written) else { return false }
        add(field, wanted, span)
        return true
    }

    /// Remembers that the statement reads a field of a document, which should then exist in some.
    mutating func notePresence(of bound: BoundExpression, _ written: ExpressionSyntax) {
        guard scope.notes != nil else { return }
        var base = bound
        while case .element(let inner, _) = base { base = inner }
        guard case .field(let access) = base, access.declaration == nil else { return }
        guard let field = notedField(base, written) else { return }
        let isKnown = expectations.contains {
            if case .presence = $0.wanted { $0.field == field && $0.clause == scope.notes } else { false }
        }
        if !isKnown { add(field, .presence, written.span) }
    }

    private mutating func add(
        _ field: NotedField, _ wanted: FieldExpectation.Wanted, _ span: SourceSpan
    ) {
        // Twice the warnings: half of them may be fields that are only read.
        guard let clause = scope.notes, expectations.count < 2 * DQLLimits.warnings else { return }
        expectations.append(FieldExpectation(field: field, wanted: wanted, clause: clause, span: span))
    }

    private func notedField(_ bound: BoundExpression, _ written: ExpressionSyntax) -> NotedField? {
        let expression = ungrouped(bound)
        var list: NotedField.ElementList?
        var place = Self.source(of: expression)
        if place == nil, let local = Self.local(of: expression), let around = scope.lists[local] {
            list = NotedField.ElementList(local: local, expression: around)
            place = Self.source(of: around)
        }
        guard let place, let binding = scope.sources.first(where: { $0.index == place }), !binding.isSystem
        else { return nil }
        return NotedField(
            expression: expression, list: list, name: shown(written.span), source: place,
            collection: binding.collection)
    }

    /// The source of a field, an id, or an element that a constant names in one; nil for any other value.
    private static func source(of field: BoundExpression) -> Int? {
        switch field {
        case .field(let access): access.source
        case .documentID(let source): source
        case .element(let base, .constant): source(of: base)
        default: nil
        }
    }

    /// The variable of which this is the value, or a part that constants name.
    private static func local(of expression: BoundExpression) -> Int? {
        switch expression {
        case .local(let index): index
        case .element(let base, .constant): local(of: base)
        default: nil
        }
    }
}

extension FunctionDefinition {
    /// True for functions that tell types, nulls and missing values apart: every argument is right.
    var asksForTypes: Bool { Self.askingForTypes.contains(name) }

    private static let askingForTypes = Set(
        (ConditionalFunctions.all + TypeFunctions.all).map(\.name))

    /// The type of its results; nil for one whose results have several.
    var resultType: StaticType? { Self.resultTypes[name] }

    /// The functions of these groups have results of one type, the example's.
    private static let resultTypes: [String: StaticType] = {
        var types: [String: StaticType] = [:]
        let all =
            NumberFunctions.all + StringFunctions.all + TextShapeFunctions.all + PatternFunctions.all
        for function in all {
            switch function.example.result.utf8.first {
            case UInt8(ascii: "'"): types[function.name] = .string
            case UInt8(ascii: "t"), UInt8(ascii: "f"): types[function.name] = .boolean
            case UInt8(ascii: "["): types[function.name] = .array
            default: types[function.name] = .number
            }
        }
        return types
    }()
}
