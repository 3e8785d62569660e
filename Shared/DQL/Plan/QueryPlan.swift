import CRDT

/// The source of rows: a tree whose leaves read documents. Rows are pushed upwards while their document is
/// in place.
///
/// Executors on other stores translate this tree.
indirect enum RowPlan: Sendable {
    /// One row without a document (`system:dual`).
    case single
    /// Every live document of a collection.
    case scan(collection: CollectionName, source: Int)
    /// The documents that a path finds: planning turns `scan` into this when the arguments are known.
    case access(collection: CollectionName, source: Int, path: AccessPath)
    /// The entries of an index that holds all fields read: the keys' values, then the id, in the slots.
    case covering(IndexScan, needsID: Bool)
    /// One row with the number of a collection's live documents in each of `slots` slots.
    case count(collection: CollectionName, slots: Int)
    /// One row of aggregates over a whole collection.
    case extremes(collection: CollectionName, [IndexExtreme])
    /// The documents that a statement in SQL selects.
    case pushed(PushedStatement, source: Int)
    /// The documents that a statement in SQL selects, in the order of ORDER BY.
    case pushedOrder(PushedOrder)
    /// The groups that a statement in SQL makes, in parts.
    case pushedGroups(PushedGrouping)
    /// The pairs of documents that a statement in SQL finds.
    case pushedJoin(PushedJoin)
    /// Pairs of rows; see `JoinPlan`.
    case join(RowPlan, JoinPlan)
    /// The documents with the given ids, each once.
    case idScan(collection: CollectionName, source: Int, ids: IDList)
    /// The rows of a `system:` collection: all, or those with the given ids.
    case system(collection: NameSyntax, source: Int, ids: IDList?)
    /// The rows for which a condition is true.
    case filter(RowPlan, BoundExpression)
    /// One row per group, its keys and aggregates in the slots.
    case group(RowPlan, Grouping)
}

extension RowPlan {
    /// The collections of stored documents that it reads, before it is planned for an execution.
    var collections: [CollectionName] {
        switch self {
        case .scan(let collection, _), .idScan(let collection, _, _), .access(let collection, _, _),
            .count(let collection, _), .extremes(let collection, _):
            [collection]
        case .join(let left, let join):
            if case .documents(let right) = join.collection {
                left.collections + [right]
            } else {
                left.collections
            }
        case .filter(let inner, _), .group(let inner, _): inner.collections
        case .single, .covering, .pushed, .pushedOrder, .pushedGroups, .pushedJoin, .system: []
        }
    }
}

/// An aggregate over a whole collection that needs no document.
enum IndexExtreme: Sendable {
    /// The number of live documents.
    case count
    /// The first value of a scan.
    case first(IndexScan)
    /// The number of entries of a scan.
    case entries(IndexScan)
}

/// A join: for each row on the left, the documents of a source for which a condition holds; an outer join
/// also gives the row without a partner.
struct JoinPlan: Sendable {
    let collection: CollectionReference
    let source: Int
    let isOuter: Bool
    let condition: BoundExpression
    let hint: IndexHint
    let ids: IDList?
    let span: SourceSpan

    /// The joined collection.
    enum CollectionReference: Sendable {
        case documents(CollectionName)
        case system(NameSyntax)
    }
}

/// The source of the ids of an id scan. Values that cannot be ids find nothing.
enum IDList: Equatable, Sendable {
    case list([BoundExpression])
    /// An array. Any other value is an error at the given place; without a place it finds nothing.
    case array(BoundExpression, SourceSpan?)
}

/// GROUP BY: slots 0 … keys.count-1 hold the keys, the aggregates follow.
struct Grouping: Sendable {
    let keys: [BoundExpression]
    let aggregates: [BoundAggregate]
}

/// An aggregate with its argument; COUNT(*) has none.
struct BoundAggregate: Equatable, Sendable {
    let kind: AggregateKind
    let argument: BoundExpression?
    let isDistinct: Bool
}

/// The aggregates (spec 2.9).
enum AggregateKind: String, CaseIterable, Sendable {
    case count
    case sum
    case avg
    case min
    case max
    case median
    case mid

    /// True for sums and means, which leave out every value that is no number.
    var takesNumbers: Bool { self == .sum || self == .avg || self == .median || self == .mid }
}

/// The shape of a result row.
enum BoundProjection: Sendable {
    /// The document, `_id` first.
    case all(source: Int)
    /// A bare value.
    case raw(BoundExpression)
    case elements([Element])

    enum Element: Sendable {
        case named(String, BoundExpression)
        /// All fields of a document.
        case allFields(source: Int)
        /// Removes a field from the elements before it.
        case missing([String])
    }
}

/// One ORDER BY term.
struct SortTerm: Sendable {
    let expression: BoundExpression
    let isDescending: Bool
    let nullsFirst: Bool?
}

/// LIMIT and OFFSET as written.
struct Bounds: Sendable {
    var limit: (value: BoundExpression, span: SourceSpan)?
    var offset: (value: BoundExpression, span: SourceSpan)?
}

/// Rows in an order, within bounds: the documents of an UPDATE or DELETE, or the input of a SELECT's
/// projection.
struct OrderedRows: Sendable {
    let rows: RowPlan
    let order: [SortTerm]
    let bounds: Bounds
    /// The types declared for each source, by its position.
    let types: [TypeDefinition]
    /// The statement's hint about the indexes of the first source.
    var hint = IndexHint()
    /// The statement's directives; nil if there are none.
    var directives: ObjectValue?
    /// The name of each source, by its position; empty unless there are several.
    var names: [String] = []
}

/// A plan of a SELECT: rows, then projection, then DISTINCT, order and bounds.
struct SelectPlan: Sendable {
    let input: OrderedRows
    let projection: BoundProjection
    let isDistinct: Bool
}

/// The plan of any statement.
enum StatementPlan: Sendable {
    case select(SelectPlan)
    case insert(InsertPlan)
    case update(UpdatePlan)
    case delete(RemovalPlan)
    case evict(RemovalPlan)
    /// DELETE of running or finished requests.
    case deleteRequests(SystemCollection, RemovalPlan)
    case alterSystem(AlterSystemPlan)
    case show(ShowPlan)
    case index(IndexPlan)
    indirect case explain(ExplainKind, StatementPlan)
}

/// A plan of CREATE INDEX or DROP INDEX.
struct IndexPlan: Sendable {
    let change: IndexChange
    /// The positions of the keys that say neither INCLUDE nor EXCLUDE MISSING.
    var openKeys: Set<Int> = []
}

/// The declared fields of a collection.
struct TypeDefinition: Sendable {
    /// The document as a MAP with the declared children.
    let root: TypeDeclaration

    static let none = TypeDefinition(root: TypeDeclaration(kind: .map))

    subscript(key: String) -> TypeDeclaration? { root[key] }
}
