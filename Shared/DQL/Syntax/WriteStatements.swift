import CRDT

/// INSERT.
public struct InsertStatement: Equatable, Sendable {
    /// The collection that gets the documents.
    public let collection: CollectionSyntax
    /// INITIAL: as if written at the beginning of time. The policy is then DO NOTHING and the source lists
    /// documents.
    public let isInitial: Bool
    /// The source of the documents.
    public let source: InsertSource
    /// ON ID CONFLICT.
    public let policy: ConflictPolicy
    /// RETURNING.
    public let returning: ReturningSyntax?
}

/// The source of the documents of an INSERT.
public indirect enum InsertSource: Equatable, Sendable {
    /// The expressions in DOCUMENTS or VALUES, each a document or an array of them.
    case documents([ExpressionSyntax])
    /// `INSERT INTO c SELECT …`: each row is a document.
    case query(SelectStatement)
}

/// RETURNING. Never RAW; DISTINCT is a field's name there.
public struct ReturningSyntax: Equatable, Sendable {
    /// The content of each row.
    public let projection: ProjectionSyntax
    /// From the word RETURNING to the end of the projection.
    public let span: SourceSpan
}

/// The action of INSERT on an existing id. DO MERGE is DO UPDATE.
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

/// A field as the target of SET, UNSET or APPLY, or as an index key.
public struct TargetSyntax: Equatable, Sendable {
    /// The names, from the outermost.
    public let segments: [String]
    /// The place where it was written.
    public let span: SourceSpan

    /// Compares names by bytes.
    public static func == (left: TargetSyntax, right: TargetSyntax) -> Bool {
        left.segments.count == right.segments.count
            && zip(left.segments, right.segments).allSatisfy(utf8Equal)
    }
}

/// One change in SET.
public struct AssignmentSyntax: Equatable, Sendable {
    /// The field.
    public let target: TargetSyntax
    /// The change.
    public let action: AssignmentAction
}

/// The changes of SET. All but `value` are the functional mutators of 4.x.
public enum AssignmentAction: Equatable, Sendable {
    /// `path = value`.
    case value(ExpressionSyntax)
    /// `path -> tombstone()`: the same as UNSET.
    case tombstone
    /// `path -> default()`: null for a REGISTER, an empty object for a MAP.
    case reset
    /// `path -> (sub = v, …)`: changes below a MAP; targets are relative to the path.
    case children([AssignmentSyntax])
}

/// One change in APPLY.
public struct ApplySyntax: Equatable, Sendable {
    /// The counter.
    public let target: TargetSyntax
    /// The change.
    public let action: ApplyAction
    /// From the target to the end of the action.
    public let span: SourceSpan
}

/// The changes of APPLY to a counter.
public enum ApplyAction: Equatable, Sendable {
    /// `INCREMENT BY n`.
    case increment(ExpressionSyntax)
    /// `RESTART [WITH n]`; 0 without.
    case restart(ExpressionSyntax?)
    /// `PN_INCREMENT BY n`.
    case pnIncrement(ExpressionSyntax)
}

/// UPDATE. At least one of APPLY, SET and UNSET is present.
public struct UpdateStatement: Equatable, Sendable {
    /// The collection.
    public let source: SourceSyntax
    /// APPLY.
    public let applications: [ApplySyntax]
    /// SET.
    public let assignments: [AssignmentSyntax]
    /// UNSET.
    public let removals: [TargetSyntax]
    /// WHERE, ORDER BY, LIMIT, OFFSET.
    public let selection: SelectionSyntax
    /// RETURNING.
    public let returning: ReturningSyntax?
}

/// DELETE, TOMBSTONE or EVICT.
public struct RemovalStatement: Equatable, Sendable {
    /// The collection.
    public let source: SourceSyntax
    /// WHERE, ORDER BY, LIMIT, OFFSET.
    public let selection: SelectionSyntax
    /// RETURNING.
    public let returning: ReturningSyntax?
}
