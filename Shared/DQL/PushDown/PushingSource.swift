import CRDT

/// A snapshot that runs parts of a statement in its own SQL.
///
/// Its tables have a row per document with these columns: `id` (bytea, in the order of scans), `live`, `body`
/// (jsonb, an undeclared read of the document with `_id`), `rough` (text[]) and the store's own `whole` and
/// `state`. *Rough* are the top-level keys under which a body says something in other words: NULL for none,
/// an empty array for all.
///
/// A store with indexes has a column of keys for each (`KeyColumn`), NULL for documents that are not in it.
///
/// SQL never decides about a document that is rough where the statement reads: such documents come along and
/// are judged by the evaluator.
public protocol PushingSource: DocumentSource {
    /// Returns whether SQL may count, group and bound a collection's documents: not if the reader may read
    /// only some of them, for SQL knows nothing of that.
    func decides(_ collection: CollectionName) -> Bool

    /// Returns whether the reader may read any of a collection's documents: SQL does not join one of which he
    /// may read none.
    func showsAny(of collection: CollectionName) -> Bool

    /// Visits the documents that a statement selects, in its order; otherwise as `scan`. Its columns are
    /// `PushedStatement.documentColumns`.
    func documents(of statement: PushedStatement, _ visit: (DocumentRecord) throws -> Bool) throws

    /// Visits the documents that a statement puts in order, with their places. Its columns are
    /// `PushedStatement.documentColumns` and the place.
    func documents(
        inOrderOf statement: PushedStatement, _ visit: (DocumentRecord, PushedPlace) throws -> Bool) throws

    /// Visits the pairs of a join in its order: the document on the left with its place and its partner, nil
    /// for a document that comes alone. There are `PushedPairs.width` columns.
    ///
    /// A pair whose partner the reader may not read comes without it.
    func pairs(
        of statement: PushedStatement,
        _ visit: (DocumentRecord, PushedPlace, DocumentRecord?) throws -> Bool) throws

    /// The number of a collection's documents, whoever may read them, for the choice of a plan; nil where
    /// they would have to be counted.
    func size(of collection: CollectionName) throws -> Int?

    /// Visits the rows of a statement whose columns are texts, until a visit returns false.
    func rows(of statement: PushedStatement, _ visit: ([String?]) throws -> Bool) throws

    /// Visits the live documents of these ids, in their order; otherwise as `scan`.
    func documents(
        _ collection: CollectionName, ids: ArraySlice<DocumentID>, _ visit: (DocumentRecord) throws -> Bool)
        throws

    /// The column that has an index's keys, in which PostgreSQL finds and orders them; nil if it is gone.
    func keyColumn(of index: IndexDescription) throws -> KeyColumn?

    /// Visits the groups of equal keys among a scan's entries.
    /// - Parameter needsFirst: true to be told each group's first document, for which it has to be read.
    func groups(
        of scan: IndexScan, needsFirst: Bool, _ visit: (IndexGroup) throws -> Bool) throws

    /// The SQL of a statement as the server sees it, and the server's own estimate of it.
    func explanation(of statement: PushedStatement) throws -> PushedExplanation
}

extension PushingSource {
    /// The source itself.
    public var pushing: (any PushingSource)? { self }

    /// Always: the rights of a reader are a matter of those who wrap the source.
    public func showsAny(of collection: CollectionName) -> Bool { true }
}

/// A statement as its server sees it.
public struct PushedExplanation: Sendable {
    /// The text.
    public let sql: String
    /// The values of `$1` and so on.
    public let arguments: [Value]
    /// The server's estimate; nil if the collection does not exist.
    public let estimate: Value?

    /// An explanation.
    public init(sql: String, arguments: [Value], estimate: Value?) {
        (self.sql, self.arguments, self.estimate) = (sql, arguments, estimate)
    }
}

/// A statement for the tables of a `PushingSource`.
public struct PushedStatement: Sendable {
    /// The part of a statement that runs in SQL.
    public enum Part: String, Sendable {
        /// The condition.
        case filter
        /// The condition, ORDER BY and LIMIT.
        case top
        /// The condition and ORDER BY.
        case order
        /// The pairs of a join, and the condition.
        case join
        /// The condition, and the groups with their aggregates.
        case group
    }

    /// The collection whose table it reads.
    public let collection: CollectionName
    /// The part of the statement that it carries out.
    public let part: Part
    /// The statement.
    public let sql: SQL
    /// True if SQL decides like the evaluator; otherwise its rows are judged again.
    public let isExact: Bool
    /// True if only the first rows may be wanted.
    public var wantsFirst = false
    /// The number of its columns.
    public let columns: Int
    /// True if the server has to use an index: the statement names it.
    public var usesIndex = false
    /// True if it reads one range of an index from one end, of which the first rows are found at once.
    public var isInKeyOrder = false
    /// True if an index confines its documents, maybe to a few, and each of them is a row. The rows of
    /// groups, and the first of an order, do not tell how many documents are read for them.
    public var isConfined: Bool { path != nil && (part == .filter || part == .order) }
    /// The path that confines the documents; nil if none does.
    var path: AccessPath?
    /// The collection that is joined to the first one; nil if none is.
    public internal(set) var joined: CollectionName?
    /// The steps in which long operands are computed.
    public internal(set) var steps = 0

    /// The columns of a statement that selects documents: id, whole, state. A large state is left out, and
    /// the store reads it alone.
    static let documentColumns: SQL = """
        id, whole, CASE WHEN octet_length(state) <= \(.integer(Int64(DQLLimits.pushedStateBytes))) \
        THEN state END AS state
        """
}

/// The place of a document among those that SQL put in order.
public enum PushedPlace: String, Sendable {
    /// The evaluator has to find it, and to ask whether the document matches.
    case doubt
    /// Documents with an array or an object come together, and the evaluator orders them.
    case several
    /// The one at which it comes.
    case known
}

/// A term of ORDER BY with its value in SQL.
struct PushedTerm {
    let value: PushedValue
    let term: SortTerm
}

/// Composes statements from conditions.
struct PushedComposer {
    let collection: CollectionName
    /// The condition's test; nil if there is no condition.
    let test: ConditionTranslator.Test?
    /// The confinement of all wanted documents by an index.
    var confinement: PushedConfinement?
    /// The values that are computed before others.
    var steps = PushedSteps()

    /// The table with the columns of the steps.
    private var table: SQL { "\(.table)\(steps.sql)" }

    private var confined: SQL { confinement.map { " AND \($0.sql)" } ?? "" }

    private var matches: SQL { test?.sql ?? "true" }

    /// The documents for which the condition may hold.
    func filter() -> PushedStatement? {
        guard let test else {
            guard confinement != nil else { return nil }
            return statement(
                .filter,
                """
                SELECT \(PushedStatement.documentColumns) FROM \(table) WHERE live\(confined) ORDER BY id
                """,
                columns: 3, isExact: false)
        }
        return statement(
            .filter,
            """
            SELECT \(PushedStatement.documentColumns) FROM \(table) \
            WHERE live\(confined) AND (\(test.sql) OR \(test.doubt.sql)) ORDER BY id
            """, columns: 3, isExact: test.isExact)
    }

    /// Returns whether a document has an array or an object where it is ordered by: two of them have no
    /// order in SQL.
    static func containers(_ terms: [PushedTerm]) -> SQL {
        SQL.joined(terms.map { "coalesce(\($0.value.type) IN ('array', 'object'), false)" }, " OR ")
    }

    /// The documents that may be among the first rows of an order: the first of those that SQL can order,
    /// and all others. If an array or an object is among the first, all documents come that have one.
    func top(_ terms: [PushedTerm], rows: Int) -> PushedStatement {
        let doubt = terms.reduce(test?.doubt ?? Doubt()) { $0 + $1.value.doubt }
        let matches: SQL = "live\(confined) AND NOT \(doubt.sql) AND \(self.matches)"
        let containers = Self.containers(terms)
        let order = SQL.joined(terms.flatMap(Self.order) + ["id"], ", ")
        let columns = PushedStatement.documentColumns
        var sql: SQL = """
            WITH first AS MATERIALIZED (\
            SELECT \(columns), (\(containers)) AS several FROM \(table) WHERE \(matches) \
            ORDER BY \(order) LIMIT \(.integer(Int64(rows)))) \
            SELECT id, whole, state FROM (\
            SELECT id, whole, state FROM first WHERE NOT several \
            UNION ALL SELECT \(columns) FROM \(table) WHERE \(matches) AND (\(containers)) \
            AND (SELECT coalesce(bool_or(several), false) FROM first)
            """
        if !doubt.isEmpty {
            sql = """
                \(sql) UNION ALL SELECT \(columns) FROM \(table) WHERE live\(confined) AND \(doubt.sql)
                """
        }
        return statement(.top, "\(sql)) AS found ORDER BY id", columns: 3, isExact: true)
    }

    /// The documents in an order, each with a `PushedPlace`: first those in doubt, then all others.
    func ordered(_ terms: [PushedTerm]) -> PushedStatement {
        let doubt = terms.reduce(test?.doubt ?? Doubt()) { $0 + $1.value.doubt }
        let order = SQL.joined(terms.flatMap(Self.order) + ["id"], ", ")
        return statement(
            .order,
            """
            SELECT \(PushedStatement.documentColumns), CASE WHEN \(doubt.sql) THEN 'doubt' \
            WHEN \(Self.containers(terms)) THEN 'several' ELSE 'known' END FROM \(table) \
            WHERE live\(confined) AND (\(matches) OR \(doubt.sql)) \
            ORDER BY CASE WHEN \(doubt.sql) THEN 0 ELSE 1 END, \(order)
            """, columns: 4, isExact: true)
    }

    static func order(_ pushed: PushedTerm) -> [SQL] {
        let (field, term) = (pushed.value, pushed.term)
        let direction: SQL = term.isDescending ? "DESC" : "ASC"
        var terms: [SQL] = []
        if let nullsFirst = term.nullsFirst {
            terms.append(
                "(\(field.value) IS NULL OR \(field.value) = 'null') \(nullsFirst ? "DESC" : "ASC")")
        }
        terms.append(
            """
            CASE \(field.type) WHEN 'boolean' THEN 0 WHEN 'number' THEN 1 WHEN 'string' THEN 3 \
            WHEN 'array' THEN 4 WHEN 'object' THEN 5 WHEN 'null' THEN 6 ELSE 7 END \(direction)
            """)
        terms.append(
            """
            CASE \(field.type) WHEN 'number' THEN \(field.value)::numeric \
            WHEN 'boolean' THEN \(field.value)::boolean::int END \(direction)
            """)
        terms.append("CASE \(field.type) WHEN 'string' THEN \(field.text) END COLLATE \"C\" \(direction)")
        return terms
    }

    /// The groups of the documents that SQL can decide about, and the others as documents.
    func groups(_ columns: GroupColumns) -> (groups: PushedStatement, rough: PushedStatement?) {
        let doubt = (test?.doubt ?? Doubt()) + columns.doubt
        let condition: SQL = test.map { " AND \($0.sql)" } ?? ""
        let sql = columns.sql(
            documents: "FROM \(table) WHERE live\(confined) AND NOT \(doubt.sql)\(condition)", id: "id",
            first: "encode(id, 'hex') COLLATE \"C\"")
        let rough: SQL = """
            SELECT \(PushedStatement.documentColumns) FROM \(table) \
            WHERE live\(confined) AND \(doubt.sql) ORDER BY id
            """
        return (
            statement(.group, sql, columns: columns.count, isExact: true),
            doubt.isEmpty ? nil : statement(.filter, rough, columns: 3, isExact: false)
        )
    }

    private func statement(
        _ part: PushedStatement.Part, _ sql: SQL, columns: Int, isExact: Bool
    ) -> PushedStatement {
        PushedStatement(
            collection: collection, part: part, sql: sql, isExact: isExact, columns: columns,
            usesIndex: confinement?.isForced ?? false, path: confinement?.path, steps: steps.count)
    }
}
