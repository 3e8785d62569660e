import CRDT

/// A join of two collections whose pairs of documents SQL finds, in the order in which the evaluator's nested
/// loop does: by the document on the left, then by the one on the right.
struct PushedJoin: Sendable {
    /// The rows on the left as the evaluator reads them.
    let left: RowPlan
    let source: Int
    let join: JoinPlan
    let pairs: PushedPairs
    /// The sides of an equality in the condition, which documents in doubt are found by.
    let keys: (left: BoundExpression, right: BoundExpression)
    /// True if an index or the id leads to the partners of a row.
    let hasPath: Bool
    /// How many of the first pairs are wanted, and in which order; nil for all.
    var bounds: (rows: Int, terms: [PushedTerm])?

    /// The part that EXPLAIN shows.
    var shown: PushedStatement {
        if let bounds { return pairs.first(bounds.rows, bounds.terms, after: nil) }
        return pairs.statement(DoubtfulSides(left: true, right: true), after: nil)
    }
}

/// The sides of a join that have documents in doubt.
struct DoubtfulSides {
    var left = false
    var right = false
    /// The values, as JSON, by which documents in doubt on the right are joined.
    var keys: [String] = []

    /// True if SQL decides about all documents.
    var isNone: Bool { !left && !right }
}

/// The SQL of a join: the tables are called `l` and `r`.
struct PushedPairs: Sendable {
    let collection: CollectionName
    let joined: CollectionName
    let isOuter: Bool
    /// The path that confines the documents on the left.
    let confinement: PushedConfinement?
    /// The tests of documents on the left by themselves.
    private(set) var filter: [SQL] = []
    /// The tests of pairs, and of documents on the right. A document without any such pair comes alone in an
    /// outer join.
    private(set) var on: [SQL] = []
    /// The tests of an outer join's rows that read its right side, for which nobody may be in doubt.
    private(set) var above: [SQL] = []
    /// The left side of the first equality.
    private var key: PushedValue
    private(set) var leftDoubt = Doubt()
    private(set) var rightDoubt = Doubt()
    /// True if SQL decides about all pairs of documents that are not in doubt.
    private(set) var isExact = true

    /// The columns of a pair: those of a document with its `PushedPlace`, and those of its partner.
    static let width = 7

    private static let shown: SQL = """
        l.id AS lid, l.whole AS lwhole, \(state("l")) AS lstate
        """

    private static func state(_ table: SQL) -> SQL {
        """
        CASE WHEN octet_length(\(table).state) <= \(.integer(Int64(DQLLimits.pushedStateBytes))) \
        THEN \(table).state END
        """
    }

    private static func columns(_ place: SQL) -> SQL {
        "\(shown), \(place) AS place, r.id AS rid, r.whole AS rwhole, \(state("r")) AS rstate"
    }

    /// The tables with the conditions on them.
    /// - Parameter last: the id on the left behind which the pairs begin.
    private func tables(_ doubtful: DoubtfulSides, after last: [UInt8]?, above: [SQL] = []) -> SQL {
        let confined: SQL = confinement.map { " AND \($0.sql)" } ?? ""
        let behind: SQL = last.map { " AND id > \(.bytes($0))" } ?? ""
        var on: [SQL] = ["r.live"] + self.on
        if doubtful.right { on.append("NOT \(rightDoubt.sql)") }
        if doubtful.left { on.append("NOT \(leftDoubt.sql)") }
        var conditions = filter
        if doubtful.left, !filter.isEmpty {
            conditions = ["(\(SQL.joined(filter, " AND ")) OR \(leftDoubt.sql))"]
        }
        conditions += above
        var kind: SQL = isOuter ? "LEFT JOIN" : "JOIN"
        if !isOuter, doubtful.left || !doubtful.keys.isEmpty {
            kind = "LEFT JOIN"
            var some: [SQL] = ["r.id IS NOT NULL"]
            if doubtful.left { some.append(leftDoubt.sql) }
            if !doubtful.keys.isEmpty {
                some.append("coalesce(\(key.value) = ANY (\(.texts(doubtful.keys))::jsonb[]), false)")
            }
            conditions.append("(\(SQL.joined(some, " OR ")))")
        }
        let all: SQL = conditions.isEmpty ? "" : " WHERE \(SQL.joined(conditions, " AND "))"
        return """
            FROM (SELECT * FROM \(.table) WHERE live\(confined)\(behind)) AS l \
            \(kind) \(.joinedTable) AS r ON \(SQL.joined(on, " AND "))\(all)
            """
    }

    /// The pairs of documents that are not in doubt; and alone, of those on the left: who is in doubt, who
    /// may have a partner in doubt, and in an outer join who has no partner.
    func statement(_ doubtful: DoubtfulSides, after last: [UInt8]?) -> PushedStatement {
        let place: SQL =
            doubtful.left ? "CASE WHEN \(leftDoubt.sql) THEN 'doubt' ELSE 'known' END" : "'known'"
        return statement(
            .join,
            "SELECT \(Self.columns(place)) \(tables(doubtful, after: last)) ORDER BY l.id, r.id",
            columns: Self.width, isExact: isExact && above.isEmpty)
    }

    /// The pairs among which the first ones of an order are, as in `PushedComposer.top`, where no document
    /// is in doubt.
    func first(_ rows: Int, _ terms: [PushedTerm], after last: [UInt8]?) -> PushedStatement {
        let tables = tables(DoubtfulSides(), after: last, above: above)
        let pairs: SQL = "SELECT \(Self.columns("'known'"))"
        let limit: SQL = "LIMIT \(.integer(Int64(rows)))"
        let order = SQL.joined(terms.flatMap(PushedComposer.order) + ["l.id", "r.id"], ", ")
        guard !terms.isEmpty else {
            return statement(
                .join, "\(pairs) \(tables) ORDER BY \(order) \(limit)", columns: Self.width, isExact: true)
        }
        let containers = PushedComposer.containers(terms)
        let names: SQL = "lid, lwhole, lstate, place, rid, rwhole, rstate"
        let sql: SQL = """
            WITH first AS MATERIALIZED (\
            \(pairs), (\(containers)) AS several \(tables) ORDER BY \(order) \(limit)) \
            SELECT \(names) FROM (SELECT \(names) FROM first WHERE NOT several \
            UNION ALL SELECT \(names) FROM (\(pairs), (\(containers)) AS several \(tables)) AS pairs \
            WHERE several AND (SELECT coalesce(bool_or(several), false) FROM first)) AS found \
            ORDER BY lid, rid
            """
        return statement(.top, sql, columns: Self.width, isExact: true)
    }

    /// The groups of the pairs, where no document is in doubt.
    func groups(_ columns: GroupColumns) -> PushedStatement {
        let place: SQL = "(encode(l.id, 'hex') || '-' || coalesce(encode(r.id, 'hex'), '')) COLLATE \"C\""
        let sql = columns.sql(
            documents: tables(DoubtfulSides(), after: nil, above: above), id: place, first: "id")
        return statement(.group, sql, columns: columns.count, isExact: true)
    }

    /// The documents of one side that are in doubt. There is no LIMIT: the reader may not read some of them.
    /// - Parameter last: the id on the left behind which the pairs begin.
    func doubtful(_ side: PushedTable, after last: [UInt8]?) -> PushedStatement {
        let columns = PushedStatement.documentColumns
        guard side == .left else {
            return PushedStatement(
                collection: joined, part: .filter,
                sql: "SELECT \(columns) FROM \(.table) AS r WHERE live AND \(rightDoubt.sql) ORDER BY id",
                isExact: false, columns: 3)
        }
        let confined: SQL = confinement.map { " AND \($0.sql)" } ?? ""
        let behind: SQL = last.map { " AND id > \(.bytes($0))" } ?? ""
        return PushedStatement(
            collection: collection, part: .filter,
            sql: """
                SELECT \(columns) FROM (SELECT * FROM \(.table) WHERE live\(confined)\(behind)) AS l \
                WHERE \(leftDoubt.sql) ORDER BY id
                """, isExact: false, columns: 3)
    }

    private func statement(
        _ part: PushedStatement.Part, _ sql: SQL, columns: Int, isExact: Bool
    ) -> PushedStatement {
        PushedStatement(
            collection: collection, part: part, sql: sql, isExact: isExact, columns: columns,
            usesIndex: confinement?.isForced ?? false, path: confinement?.path, joined: joined)
    }
}

// MARK: Conditions

extension PushedPairs {
    /// nil if the condition has no equality of the two sides that SQL can tell.
    /// - Parameter most: the longest test that goes along.
    fileprivate init?(
        _ planner: PushPlanner, _ join: JoinPlan, _ joined: CollectionName, _ scope: PushScope, most: Int,
        _ keys: inout (left: BoundExpression, right: BoundExpression)?
    ) {
        func sides(_ part: BoundExpression) -> (left: PushedValue, right: PushedValue)? {
            guard let both = part.equality(of: planner.place, join.source),
                let left = PushedValue(both.left, scope), let right = PushedValue(both.right, scope)
            else { return nil }
            let bytes = 2 * left.value.textBytes + right.value.textBytes
            return bytes + left.doubt.textBytes + right.doubt.textBytes <= most ? (left, right) : nil
        }
        let (left, right) = (planner.place, join.source)
        let translator = ConditionTranslator(scope: scope)
        let above = planner.condition?.conjuncts ?? []
        let together = join.condition.conjuncts + (join.isOuter ? [] : above)
        guard
            let first = together.first(where: { sides($0) != nil }), let key = sides(first)?.left,
            let equality = first.equality(of: left, right)
        else { return nil }
        keys = equality
        collection = planner.collection
        self.joined = joined
        isOuter = join.isOuter
        confinement = planner.confinement
        self.key = key
        for part in together {
            if let (one, other) = sides(part) {
                // As it stands here the server can join by hashing.
                on.append("\(one.value) = \(other.value)")
                on.append("\(one.value) <> 'null'")
                add(one.doubt + other.doubt)
                continue
            }
            guard let test = translate(part, translator, most: most) else { continue }
            if !isOuter, part.sourcesRead.isSubset(of: [left]) {
                filter.append(test)
            } else {
                on.append(test)
            }
        }
        guard isOuter else { return }
        for part in above {
            guard let test = translate(part, translator, most: most) else { continue }
            if part.sourcesRead.isSubset(of: [left]) { filter.append(test) } else { self.above.append(test) }
        }
    }

    /// A test that holds at least where a part of the condition does; nil for one that SQL cannot tell, or
    /// that is too long.
    private mutating func translate(
        _ part: BoundExpression, _ translator: ConditionTranslator, most: Int
    ) -> SQL? {
        guard let test = translator.test(part), test.textBytes <= most else {
            isExact = false
            return nil
        }
        add(test.doubt)
        isExact = isExact && test.isExact
        let doubt = test.doubt.aboutPairs
        return doubt.isEmpty ? test.sql : "(\(test.sql) OR \(doubt.sql))"
    }

    /// Adds the doubt of a value.
    fileprivate mutating func add(_ doubt: Doubt) {
        leftDoubt = leftDoubt + doubt.about(.left)
        rightDoubt = rightDoubt + doubt.about(.right)
        if !doubt.aboutPairs.isEmpty { isExact = false }
    }
}

extension BoundExpression {
    /// The operands of an AND, or the condition itself.
    fileprivate var conjuncts: [BoundExpression] {
        if case .and(let operands) = self { operands.flatMap(\.conjuncts) } else { [self] }
    }

    /// The sources whose documents it reads.
    fileprivate var sourcesRead: Set<Int> {
        switch self {
        case .field(let access), .conflicts(let access): return [access.source]
        case .documentID(let source), .document(let source): return [source]
        default:
            var found: Set<Int> = []
            _ = mapChildren { child in
                found.formUnion(child.sourcesRead)
                return child
            }
            return found
        }
    }

    /// The sides of an equality of two sources.
    fileprivate func equality(of left: Int, _ right: Int) -> (left: BoundExpression, right: BoundExpression)?
    {
        guard case .comparison(.equal, let one, let other) = self else { return nil }
        switch (one.sourcesRead, other.sourcesRead) {
        case ([left], [right]): return (one, other)
        case ([right], [left]): return (other, one)
        default: return nil
        }
    }
}

// MARK: Planning

/// Plans the first join of a statement, with what comes above it.
struct JoinPlanner {
    private let source: any PushingSource
    private let scope: PushScope
    private var pushed: PushedJoin

    /// nil if SQL cannot find the pairs.
    /// - Parameter left: the rows on the left as the evaluator reads them.
    init?(_ planner: PushPlanner, _ join: JoinPlan, left: RowPlan, hasPath: Bool) {
        guard case .documents(let joined) = join.collection, join.ids == nil,
            join.hint.names?.isEmpty ?? true, planner.source.showsAny(of: joined)
        else { return nil }
        source = planner.source
        scope = PushScope(left: planner.place, right: join.source)
        var keys: (left: BoundExpression, right: BoundExpression)?
        var found: PushedJoin?
        for most in DQLLimits.pushedTestBytes where found == nil {
            guard let pairs = PushedPairs(planner, join, joined, scope, most: most, &keys), let keys else {
                return nil
            }
            let pushed = PushedJoin(
                left: left, source: planner.place, join: join, pairs: pairs, keys: keys, hasPath: hasPath)
            if pushed.shown.sql.isModest { found = pushed }
        }
        guard let found else { return nil }
        pushed = found
    }

    /// All pairs.
    var all: RowPlan { .pushedJoin(pushed) }

    /// The pairs among which the first ones are; all, if SQL cannot tell them.
    func first(_ order: [SortTerm], _ bounds: Bounds) -> RowPlan {
        guard decides, let rows = PushPlanner.rows(bounds) else { return all }
        var bounded = self
        var terms: [PushedTerm] = []
        for term in order {
            guard let value = PushedValue(term.expression, scope) else { return all }
            bounded.add(value.doubt)
            terms.append(PushedTerm(value: value, term: term))
        }
        bounded.pushed.bounds = (rows, terms)
        return bounded.decides && isModest(bounded.pushed.shown) ? bounded.all : all
    }

    /// The groups, in parts; nil if SQL cannot make them.
    func groups(_ grouping: Grouping, otherwise: RowPlan) -> RowPlan? {
        guard decides, let columns = GroupColumns(grouping, scope) else { return nil }
        var grouped = self
        grouped.add(columns.doubt)
        let groups = grouped.pushed.pairs.groups(columns)
        guard grouped.decides, isModest(groups) else { return nil }
        return .pushedGroups(
            PushedGrouping(
                groups: groups, rough: nil, grouping: grouping, columns: columns, condition: nil,
                source: pushed.source, join: grouped.pushed, otherwise: otherwise))
    }

    /// True if SQL may count and bound the pairs.
    private var decides: Bool {
        pushed.pairs.isExact && source.decides(pushed.pairs.collection) && source.decides(pushed.pairs.joined)
    }

    private mutating func add(_ doubt: Doubt) {
        var pairs = pushed.pairs
        pairs.add(doubt)
        pushed = PushedJoin(
            left: pushed.left, source: pushed.source, join: pushed.join, pairs: pairs, keys: pushed.keys,
            hasPath: pushed.hasPath)
    }

    private func isModest(_ statement: PushedStatement) -> Bool { statement.sql.isModest }
}

extension RowPlanner {
    /// The plan of a statement with joins, of which the first one runs in SQL; nil if nothing does.
    func pushedJoin(
        _ input: OrderedRows, _ projection: BoundProjection, isDistinct: Bool, _ shape: Shape,
        _ planner: PushPlanner
    ) -> Planned? {
        let isPlain = input.order.isEmpty && shape.grouping == nil && !isDistinct
        let filter = planner.filter(wantsFirst: input.bounds.limit != nil && isPlain)
        var planned = Planned(input: input, projection: projection)
        guard let join = input.rows.firstJoin,
            let joins = JoinPlanner(planner, join, left: filter ?? shape.leaf, hasPath: hasPath(join))
        else {
            guard let filter else { return nil }
            planned.input = input.replacing(rows: input.rows.replacingLeaf(filter))
            return planned
        }
        let all = input.rows.replacingFirstJoin(joins.all)
        planned.input = input.replacing(rows: all)
        guard input.rows.joins == 1 else { return planned }
        if let grouping = shape.grouping {
            guard let groups = joins.groups(grouping, otherwise: shape.groups(of: all)) else {
                return planned
            }
            planned.input = input.replacing(rows: shape.having.map { .filter(groups, $0) } ?? groups)
        } else if isDistinct {
            guard let distinct = DistinctGroups(input, projection),
                let groups = joins.groups(distinct.grouping, otherwise: .group(all, distinct.grouping))
            else { return planned }
            planned = Planned(
                input: input.replacing(rows: groups, order: distinct.order), projection: distinct.projection)
        } else {
            let first = joins.first(input.order, input.bounds)
            planned.input = input.replacing(rows: input.rows.replacingFirstJoin(first))
        }
        return planned
    }
}

extension RowPlanner {
    private func hasPath(_ join: JoinPlan) -> Bool {
        guard case .documents(let collection) = join.collection else { return false }
        let path = try? joinPath(join, collection)
        return path != nil && path != .collection
    }
}

extension RowPlan {
    /// The number of its joins.
    fileprivate var joins: Int {
        switch self {
        case .filter(let inner, _), .group(let inner, _): inner.joins
        case .join(let left, _): left.joins + 1
        default: 0
        }
    }

    /// The join whose left side is a collection.
    fileprivate var firstJoin: JoinPlan? {
        switch self {
        case .filter(let inner, _), .group(let inner, _): inner.firstJoin
        case .join(let left, let join): left.joins == 0 ? join : left.firstJoin
        default: nil
        }
    }

    fileprivate func replacingFirstJoin(_ rows: RowPlan) -> RowPlan {
        switch self {
        case .filter(let inner, let condition): .filter(inner.replacingFirstJoin(rows), condition)
        case .group(let inner, let grouping): .group(inner.replacingFirstJoin(rows), grouping)
        case .join(let left, let join):
            left.joins == 0 ? rows : .join(left.replacingFirstJoin(rows), join)
        default: self
        }
    }
}
