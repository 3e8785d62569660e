import CRDT

/// One statement as written. Comparison ignores positions.
public indirect enum Statement: Equatable, Sendable {
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
    /// CREATE INDEX.
    case createIndex(CreateIndexStatement)
    /// DROP INDEX.
    case dropIndex(DropIndexStatement)
    /// EXPLAIN, PROFILE and ADVISE with the statement they contain.
    case explain(ExplainStatement)
    /// ALTER SYSTEM.
    case alterSystem(AlterSystemStatement)
    /// SHOW.
    case show(ShowStatement)
}

/// A name and its place.
public struct NameSyntax: Equatable, Sendable {
    /// The name, quotes removed.
    public let text: String
    /// The place where it was written.
    public let span: SourceSpan

    /// Compares bytes.
    public static func == (left: NameSyntax, right: NameSyntax) -> Bool { utf8Equal(left.text, right.text) }
}
