/// EXPLAIN, PROFILE or ADVISE.
public struct ExplainStatement: Equatable, Sendable {
    /// The kind of explanation.
    public let kind: ExplainKind
    /// The statement inside: SELECT, a write, an index statement, or (after EXPLAIN) ADVISE.
    public let statement: Statement
}

/// The kinds of explanation.
public enum ExplainKind: Equatable, Sendable {
    /// EXPLAIN: the plan, without running it.
    case explain
    /// PROFILE: the rows and their cost.
    case profile
    /// ADVISE: the indexes that would help; AND PROVISION creates them.
    case advise(provision: Bool)
}

/// CREATE INDEX.
public struct CreateIndexStatement: Equatable, Sendable {
    /// The index.
    public let name: NameSyntax
    /// IF NOT EXISTS.
    public let ifNotExists: Bool
    /// The collection.
    public let collection: CollectionSyntax
    /// The indexed keys, at least one.
    public let keys: [IndexKeySyntax]
}

/// `path [INCLUDE MISSING] [ASC | DESC]`.
public struct IndexKeySyntax: Equatable, Sendable {
    /// The field.
    public let path: TargetSyntax
    /// DESC.
    public let isDescending: Bool
    /// INCLUDE MISSING or EXCLUDE MISSING; nil leaves it to `DQL_INDEX_DEFAULT_INCLUDE_MISSING`.
    public let includesMissing: Bool?
}

/// DROP INDEX.
public struct DropIndexStatement: Equatable, Sendable {
    /// The index.
    public let name: NameSyntax
    /// IF EXISTS.
    public let ifExists: Bool
    /// The collection.
    public let collection: CollectionSyntax
}

/// ALTER SYSTEM.
public struct AlterSystemStatement: Equatable, Sendable {
    /// The action.
    public let action: AlterSystemAction
}

/// The actions of ALTER SYSTEM. Names are as written; the names of parameters ignore case.
public enum AlterSystemAction: Equatable, Sendable {
    /// `SET name = value [PERSIST]`; nil is DEFAULT.
    case set(NameSyntax, ExpressionSyntax?, persists: Bool)
    /// `RESET name`.
    case reset(NameSyntax)
    /// `RESET ALL`.
    case resetAll
}

/// SHOW.
public enum ShowStatement: Equatable, Sendable {
    /// `SHOW name`.
    case parameter(NameSyntax)
    /// `SHOW ALL [LIKE | ILIKE pattern]`.
    case all(pattern: ExpressionSyntax?, ignoresCase: Bool)
}
