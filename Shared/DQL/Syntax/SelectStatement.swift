/// The clauses that choose documents, the same in every statement.
public struct SelectionSyntax: Equatable, Sendable {
    /// WHERE.
    public var condition: ExpressionSyntax?
    /// ORDER BY.
    public var order: [OrderSyntax] = []
    /// LIMIT: a whole number or a parameter.
    public var limit: ExpressionSyntax?
    /// OFFSET: a whole number or a parameter.
    public var offset: ExpressionSyntax?
}

/// One term of ORDER BY.
public struct OrderSyntax: Equatable, Sendable {
    /// The expression to sort by.
    public let expression: ExpressionSyntax
    /// DESC.
    public let isDescending: Bool
    /// NULLS FIRST or NULLS LAST; nil follows the type order (null and missing are greatest).
    public let nullsFirst: Bool?
}

/// SELECT.
public struct SelectStatement: Equatable, Sendable {
    /// Hint comments before or after the word SELECT.
    public let directives: DirectivesSyntax?
    /// SELECT DISTINCT.
    public let isDistinct: Bool
    /// The place of the word DISTINCT.
    let distinctSpan: SourceSpan
    /// The content of each row.
    public let projection: ProjectionSyntax
    /// FROM.
    public let source: SourceSyntax
    /// GROUP BY.
    public let groupKeys: [ExpressionSyntax]
    /// HAVING.
    public let having: ExpressionSyntax?
    /// WHERE, ORDER BY, LIMIT, OFFSET.
    public let selection: SelectionSyntax

    init(
        directives: DirectivesSyntax? = nil, isDistinct: Bool = false,
        distinctSpan: SourceSpan = SourceSpan(start: 0, end: 0), projection: ProjectionSyntax,
        source: SourceSyntax, groupKeys: [ExpressionSyntax] = [], having: ExpressionSyntax? = nil,
        selection: SelectionSyntax = SelectionSyntax()
    ) {
        self.directives = directives
        self.isDistinct = isDistinct
        self.distinctSpan = distinctSpan
        self.projection = projection
        self.source = source
        self.groupKeys = groupKeys
        self.having = having
        self.selection = selection
    }
}

/// The shape that a SELECT gives to each row.
public enum ProjectionSyntax: Equatable, Sendable {
    /// `*` alone.
    case all(SourceSpan)
    /// `RAW expr` or `VALUE expr`: each row is the bare value.
    case raw(ExpressionSyntax)
    /// A list of elements.
    case elements([ProjectionElementSyntax])
}

/// One element of a projection.
public enum ProjectionElementSyntax: Equatable, Sendable {
    /// An expression with an optional name.
    case expression(ExpressionSyntax, alias: NameSyntax?)
    /// `alias.*`.
    case allFields(NameSyntax)
    /// `MISSING a.b`: removes the field from the row.
    case missing([NameSyntax])
    /// `*` among other elements: parsed so that the error can name it.
    case star(SourceSpan)
}

extension SelectStatement {
    /// The number of levels of its deepest expression, including this level.
    var depth: Int {
        var expressions = groupKeys + selection.order.map(\.expression)
        switch projection {
        case .all: break
        case .raw(let value): expressions.append(value)
        case .elements(let elements):
            for case .expression(let value, _) in elements { expressions.append(value) }
        }
        expressions += [having, selection.condition, selection.limit, selection.offset].compactMap(\.self)
        expressions += source.ids?.expressions ?? []
        for join in source.joins {
            expressions.append(join.condition)
            expressions += join.source.ids?.expressions ?? []
        }
        return 1 + (expressions.map(\.depth).max() ?? 0)
    }
}

extension IDsSyntax {
    var expressions: [ExpressionSyntax] {
        switch self {
        case .list(let ids): ids
        case .array(let array): [array]
        }
    }
}

extension ProjectionSyntax {
    /// The place of its first element that is no `*`.
    var span: SourceSpan {
        switch self {
        case .all(let span): span
        case .raw(let value): value.span
        case .elements(let elements):
            switch elements.first(where: { if case .star = $0 { false } else { true } }) ?? elements.first {
            case .expression(let value, _): value.span
            case .allFields(let name): name.span
            case .missing(let path): path[0].span
            case .star(let span): span
            case nil: SourceSpan(start: 0, end: 0)
            }
        }
    }
}
