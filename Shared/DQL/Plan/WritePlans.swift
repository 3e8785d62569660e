import CRDT

/// RETURNING: a projection of each written document, or of aggregates over all of them.
struct ReturningPlan: Sendable {
    let projection: BoundProjection
    /// A grouping without keys; nil if no aggregate is called.
    let grouping: Grouping?
    let types: [TypeDefinition]
}

/// A plan of an INSERT.
struct InsertPlan: Sendable {
    let collection: CollectionName
    let source: Source
    let isInitial: Bool
    let policy: ConflictPolicy
    let types: TypeDefinition
    let returning: ReturningPlan?

    enum Source: Sendable {
        case documents([(value: BoundExpression, span: SourceSpan)])
        case query(SelectPlan, SourceSpan)
    }
}

/// A plan of an UPDATE: the changes to each document, in this order.
struct UpdatePlan: Sendable {
    let collection: CollectionName
    let targets: OrderedRows
    let changes: [FieldChange]
    let returning: ReturningPlan?
}

/// One change of a field.
struct FieldChange: Sendable {
    let path: [String]
    let declaration: TypeDeclaration?
    /// The first undeclared step that has a write below it; strict mode refuses it.
    let undeclaredStep: String?
    let action: Action
    let span: SourceSpan

    enum Action: Sendable {
        case set(BoundExpression)
        case unset
        /// Writes null, or an empty MAP.
        case reset
        case increment(BoundExpression, isFractional: Bool)
        case restart(BoundExpression)
    }

    /// The operand, evaluated on the document as it was before the statement.
    var operand: BoundExpression? {
        switch action {
        case .set(let value), .increment(let value, _), .restart(let value): value
        case .unset, .reset: nil
        }
    }
}

/// A plan of a DELETE or EVICT.
struct RemovalPlan: Sendable {
    let collection: CollectionName
    let targets: OrderedRows
    let returning: ReturningPlan?
}

/// A plan of ALTER SYSTEM.
enum AlterSystemPlan: Sendable {
    case set(NameSyntax, AlterSystemValue, persists: Bool)
    case reset(NameSyntax)
    case resetAll
}

/// The value of an ALTER SYSTEM SET.
enum AlterSystemValue: Sendable {
    case value(BoundExpression, SourceSpan)
    case standard
}

/// A plan of SHOW.
enum ShowPlan: Sendable {
    case parameter(NameSyntax)
    case all(BoundExpression?, ignoresCase: Bool, SourceSpan)
}
