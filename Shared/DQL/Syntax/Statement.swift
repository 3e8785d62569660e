import CRDT

/// One statement as written. Compares ignoring where things were written.
public enum Statement: Equatable, Sendable {
    /// SELECT.
    case select(SelectStatement)
    /// INSERT.
    case insert(InsertStatement)
    /// UPDATE.
    case update(UpdateStatement)
    /// DELETE and TOMBSTONE.
    case delete(RemovalStatement)
    /// EVICT.
    case evict(RemovalStatement)
}

/// A name with its place.
public struct NameSyntax: Equatable, Sendable {
    /// The name, quotes removed.
    public let text: String
    /// Where it was written.
    public let span: SourceSpan

    /// Same bytes.
    public static func == (left: NameSyntax, right: NameSyntax) -> Bool { utf8Equal(left.text, right.text) }
}

/// A collection as a statement names it: `cars`, `COLLECTION cars (features MAP)`, `system:dual`.
public struct CollectionSyntax: Equatable, Sendable {
    /// The name without namespace.
    public let name: NameSyntax
    /// Whether it is one of the `system:` collections.
    public let isSystem: Bool
    /// The declared fields; empty when there is no type definition.
    public let fields: [FieldDeclarationSyntax]

    /// The name with `system:` where it belongs.
    public var qualifiedName: String { isSystem ? "system:\(name.text)" : name.text }
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

/// A collection in FROM or UPDATE, with what qualifies it. Joins add further terms to a statement later.
public struct SourceSyntax: Equatable, Sendable {
    /// The collection.
    public let collection: CollectionSyntax
    /// `[AS] alias`.
    public let alias: NameSyntax?
    /// `USE IDS …`.
    public let ids: IDsSyntax?
}

/// `USE IDS`.
public enum IDsSyntax: Equatable, Sendable {
    /// `USE IDS 'a', 'b'`.
    case list([ExpressionSyntax])
    /// `USE IDS LIST :array`.
    case array(ExpressionSyntax)
}

/// The clauses that choose documents, alike in every statement.
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
    /// What is sorted by.
    public let expression: ExpressionSyntax
    /// DESC.
    public let isDescending: Bool
    /// NULLS FIRST or NULLS LAST; nil follows the type order (null and missing are greatest).
    public let nullsFirst: Bool?
}

/// SELECT.
public struct SelectStatement: Equatable, Sendable {
    /// SELECT DISTINCT.
    public let isDistinct: Bool
    /// What each row holds.
    public let projection: ProjectionSyntax
    /// FROM.
    public let source: SourceSyntax
    /// GROUP BY.
    public let groupKeys: [ExpressionSyntax]
    /// HAVING.
    public let having: ExpressionSyntax?
    /// WHERE, ORDER BY, LIMIT, OFFSET.
    public let selection: SelectionSyntax
}

/// What a SELECT makes of a document.
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
    /// `*` beside other elements: parsed so that the error can say so.
    case star(SourceSpan)
}

/// INSERT.
public struct InsertStatement: Equatable, Sendable {
    /// Where the documents go.
    public let collection: CollectionSyntax
    /// The expressions in DOCUMENTS or VALUES.
    public let documents: [ExpressionSyntax]
    /// ON ID CONFLICT.
    public let policy: ConflictPolicy
}

/// What INSERT does about an id that exists. DO MERGE is DO UPDATE.
public enum ConflictPolicy: String, Sendable, CaseIterable {
    /// The statement fails and changes nothing.
    case fail = "FAIL"
    /// The document is skipped.
    case doNothing = "DO NOTHING"
    /// Every supplied field is written, others stay.
    case doUpdate = "DO UPDATE"
    /// Only fields that differ are written.
    case doUpdateLocalDiff = "DO UPDATE_LOCAL_DIFF"
}

/// A field as the target of SET or UNSET.
public struct TargetSyntax: Equatable, Sendable {
    /// The names, from the outermost.
    public let segments: [String]
    /// Where it was written.
    public let span: SourceSpan

    /// Same names by bytes.
    public static func == (left: TargetSyntax, right: TargetSyntax) -> Bool {
        left.segments.count == right.segments.count
            && zip(left.segments, right.segments).allSatisfy(utf8Equal)
    }
}

/// `path = value` in SET.
public struct AssignmentSyntax: Equatable, Sendable {
    /// The field.
    public let target: TargetSyntax
    /// The new value.
    public let value: ExpressionSyntax
}

/// UPDATE.
public struct UpdateStatement: Equatable, Sendable {
    /// The collection.
    public let source: SourceSyntax
    /// SET.
    public let assignments: [AssignmentSyntax]
    /// UNSET.
    public let removals: [TargetSyntax]
    /// WHERE, ORDER BY, LIMIT, OFFSET.
    public let selection: SelectionSyntax
}

/// DELETE, TOMBSTONE or EVICT.
public struct RemovalStatement: Equatable, Sendable {
    /// The collection.
    public let source: SourceSyntax
    /// WHERE, ORDER BY, LIMIT, OFFSET.
    public let selection: SelectionSyntax
}
