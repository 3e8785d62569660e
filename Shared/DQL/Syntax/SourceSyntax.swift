import CRDT

/// A collection as a statement names it: `cars`, `COLLECTION cars (features MAP)`, `system:dual`.
public struct CollectionSyntax: Equatable, Sendable {
    /// The name without namespace.
    public let name: NameSyntax
    /// True if it is one of the `system:` collections.
    public let isSystem: Bool
    /// The declared fields; empty if there is no type definition.
    public let fields: [FieldDeclarationSyntax]

    /// The collection of the name without namespace.
    public var collectionName: CollectionName { CollectionName(name.text) }
    /// The name, with `system:` in front if it is a system collection.
    public var qualifiedName: CollectionName {
        CollectionName(isSystem ? "system:\(name.text)" : name.text)
    }
}

/// `features MAP(trim REGISTER)` in a type definition.
public struct FieldDeclarationSyntax: Equatable, Sendable {
    /// The field.
    public let name: NameSyntax
    /// Its type.
    public let type: DeclaredType
    /// Declared children of a MAP.
    public let children: [FieldDeclarationSyntax]
}

/// The types a field can be declared as.
public enum DeclaredType: String, Sendable, CaseIterable {
    /// One unit; last write wins.
    case register = "REGISTER"
    /// Children written one by one.
    case map = "MAP"
    /// A token that names a blob.
    case attachment = "ATTACHMENT"
    /// A sum of increments.
    case counter = "COUNTER"
    /// The counter of older versions.
    case pnCounter = "PN_COUNTER"
}

/// A collection in FROM, JOIN, UPDATE, DELETE or EVICT, with its qualifiers.
public struct SourceSyntax: Equatable, Sendable {
    /// The collection.
    public let collection: CollectionSyntax
    /// `[AS] alias`.
    public let alias: NameSyntax?
    /// `USE IDS …`.
    public let ids: IDsSyntax?
    /// `USE INDEX 'name'`; the empty name asks for a scan of the collection.
    public let indexHint: NameSyntax?
    /// `USE DIRECTIVES '{…}'`, and hint comments after the collection.
    public let directives: DirectivesSyntax?
    /// The joins in the order they are written; empty in a joined source and outside SELECT.
    public let joins: [JoinSyntax]

    init(
        collection: CollectionSyntax, alias: NameSyntax? = nil, ids: IDsSyntax? = nil,
        indexHint: NameSyntax? = nil, directives: DirectivesSyntax? = nil, joins: [JoinSyntax] = []
    ) {
        self.collection = collection
        self.alias = alias
        self.ids = ids
        self.indexHint = indexHint
        self.directives = directives
        self.joins = joins
    }
}

/// `USE IDS`.
public enum IDsSyntax: Equatable, Sendable {
    /// `USE IDS 'a', 'b'`.
    case list([ExpressionSyntax])
    /// `USE IDS LIST :array`.
    case array(ExpressionSyntax)
}

/// Hints for the planner: `{"#index": "by_year"}`. Several hints at one place are merged into one object; of
/// equal names the later one wins.
public struct DirectivesSyntax: Equatable, Sendable {
    /// The directives by name.
    public let values: ObjectValue
    /// The place where their (last) text was written.
    public let span: SourceSpan
}

/// `[INNER | LEFT [OUTER] | RIGHT [OUTER]] JOIN source ON condition`.
public struct JoinSyntax: Equatable, Sendable {
    /// The kind: which rows without a partner stay.
    public let kind: JoinKind
    /// The joined collection; it has no joins of its own.
    public let source: SourceSyntax
    /// ON.
    public let condition: ExpressionSyntax
    /// From the first word of the join to the end of its condition.
    public let span: SourceSpan
}

/// The kinds of joins. The raw value is the printed form.
public enum JoinKind: String, Sendable, CaseIterable {
    /// Only pairs.
    case inner = "INNER"
    /// Also left rows without a partner.
    case left = "LEFT"
    /// Also right rows without a partner; only as the first join.
    case right = "RIGHT"
}
