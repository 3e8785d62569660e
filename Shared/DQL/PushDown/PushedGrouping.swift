import CRDT

/// An aggregate that SQL computes in parts: of one group's documents, by type.
struct PushedAggregate: Sendable {
    let kind: AggregateKind
    /// The argument; nil for COUNT(*), and where SQL returns the distinct values as keys.
    let field: PushedValue?

    /// nil if SQL cannot compute it.
    init?(_ aggregate: BoundAggregate, _ scope: PushScope) {
        kind = aggregate.kind
        guard let argument = aggregate.argument else {
            field = nil
            return
        }
        guard let field = PushedValue(argument, scope) else { return nil }
        self.field = aggregate.isDistinct ? nil : field
    }

    /// True if its parts have integers and doubles apart, since a result shows which it was.
    var readsNumbers: Bool { field != nil && ![.count, .median].contains(kind) }

    /// The number that a value is; NULL for other values, and for a double or an integer.
    static func number(_ value: SQL, _ type: SQL, isWhole: Bool) -> SQL {
        """
        CASE WHEN \(type) = 'number' THEN CASE WHEN scale(\(value)::numeric) \(isWhole ? "=" : ">") 0 \
        THEN \(value)::numeric END END
        """
    }

    /// The columns of its parts, of a value, its type, and the integer and the double that it may be. Doubles
    /// add in the order of the documents.
    func columns(_ value: SQL, _ type: SQL, whole: SQL, double: SQL) -> [SQL] {
        let others: SQL = "count(*) FILTER (WHERE \(type) NOT IN ('number', 'null'))::text"
        switch kind {
        case .count:
            return ["count(*) FILTER (WHERE \(value) <> 'null' AND \(value) <> 'false')::text"]
        case .sum, .avg:
            return [
                "sum(\(whole))::text", "count(\(whole))::text",
                "(sum(\(double)::float8 ORDER BY id) FILTER (WHERE \(double) IS NOT NULL))::text",
                "count(\(double))::text", others,
            ]
        case .min, .max:
            let (name, flag): (SQL, SQL) = kind == .min ? ("min", "bool_and") : ("max", "bool_or")
            return [
                "\(flag)(CASE WHEN \(type) = 'boolean' THEN \(value)::boolean END)::text",
                "\(name)(\(whole))::text", "\(name)(\(double))::text",
                "\(name)((CASE WHEN \(type) = 'string' THEN \(value) #>> '{}' END) COLLATE \"C\")",
                "count(*) FILTER (WHERE \(type) IN ('array', 'object'))::text",
            ]
        case .mid:
            return [
                "min(\(whole))::text", "min(\(double))::text", "max(\(whole))::text",
                "max(\(double))::text", others,
            ]
        case .median:
            // The median of two parts is not that of their medians: the numbers come, in one text.
            return [
                """
                string_agg(CASE WHEN \(type) = 'number' THEN \(value)::text END, ',' ORDER BY id)
                """, others,
            ]
        }
    }

    /// The number of those columns.
    var width: Int {
        guard field != nil else { return 0 }
        switch kind {
        case .count: return 1
        case .median: return 2
        default: return 5
        }
    }
}

/// The keys and aggregates of a GROUP BY as columns in SQL.
struct GroupColumns: Sendable {
    /// The keys, then the arguments of aggregates with DISTINCT.
    private(set) var keys: [PushedValue] = []
    private(set) var aggregates: [PushedAggregate] = []
    /// The key that is the argument of each aggregate with DISTINCT.
    private(set) var distinct: [Int?] = []

    /// nil if SQL cannot compute one.
    init?(_ grouping: Grouping, _ scope: PushScope) {
        for key in grouping.keys {
            guard let value = PushedValue(key, scope) else { return nil }
            keys.append(value)
        }
        for aggregate in grouping.aggregates {
            guard let pushed = PushedAggregate(aggregate, scope) else { return nil }
            aggregates.append(pushed)
            guard aggregate.isDistinct, let argument = aggregate.argument,
                let value = PushedValue(argument, scope)
            else {
                distinct.append(nil)
                continue
            }
            distinct.append(keys.count)
            keys.append(value)
        }
    }

    /// The documents in doubt.
    var doubt: Doubt {
        (keys + aggregates.compactMap(\.field)).reduce(Doubt()) { $0 + $1.doubt }
    }

    /// The number of columns: keys, count, first document, and those of the aggregates.
    var count: Int { keys.count + 2 + aggregates.reduce(0) { $0 + $1.width } }

    /// The groups of some documents.
    ///
    /// `OFFSET 0` keeps the server from computing the columns again in each of their places, and from
    /// sorting whole documents where it sorts. As an int8 it does not keep it from using several processes.
    /// - Parameters:
    ///   - documents: FROM and WHERE.
    ///   - id: what doubles are added in the order of.
    ///   - first: a text of `id` whose least one is that of a group's first document.
    func sql(documents: SQL, id: SQL, first: SQL) -> SQL {
        var inner: [SQL] = ["\(id) AS id"]
        var numbers: [SQL] = []
        var outer: [SQL] = []
        for (place, key) in keys.enumerated() {
            inner.append("\(key.value)::text AS k\(.number(place))")
            outer.append("k\(.number(place))")
        }
        let groupBy = SQL.joined(outer, ", ")
        outer.append("count(*)::text")
        // Without keys there is one group, which needs no place among others.
        outer.append(keys.isEmpty ? "NULL::text" : "min(\(first))")
        for (place, aggregate) in aggregates.enumerated() {
            guard let field = aggregate.field else { continue }
            let (value, type): (SQL, SQL) = ("a\(.number(place))", "t\(.number(place))")
            let (whole, double): (SQL, SQL) = ("w\(.number(place))", "d\(.number(place))")
            inner.append("\(field.value) AS \(value), \(field.type) AS \(type)")
            if aggregate.readsNumbers {
                numbers.append("\(PushedAggregate.number(value, type, isWhole: true)) AS \(whole)")
                numbers.append("\(PushedAggregate.number(value, type, isWhole: false)) AS \(double)")
            }
            outer += aggregate.columns(value, type, whole: whole, double: double)
        }
        var matching: SQL = "SELECT \(SQL.joined(inner, ", ")) \(documents)"
        // A COUNT(*) alone reads no columns.
        if inner.count > 1 { matching = "\(matching) OFFSET '0'::int8" }
        if !numbers.isEmpty {
            matching = """
                SELECT *, \(SQL.joined(numbers, ", ")) FROM (\(matching)) AS plain OFFSET '0'::int8
                """
        }
        return """
            SELECT \(SQL.joined(outer, ", ")) FROM (\(matching)\
            ) AS matching\(keys.isEmpty ? "" : " GROUP BY \(groupBy)")
            """
    }
}

/// A GROUP BY whose groups SQL computes in parts, to which the evaluator adds the rough documents.
struct PushedGrouping: Sendable {
    /// The parts of groups: keys and distinct arguments, count, first id, then the columns of the aggregates.
    let groups: PushedStatement
    /// The documents that SQL decides nothing about.
    let rough: PushedStatement?
    let grouping: Grouping
    let columns: GroupColumns
    let condition: BoundExpression?
    let source: Int
    /// The join whose pairs are grouped, in which no document may be in doubt.
    var join: PushedJoin?
    /// The same rows without SQL, for what turns out not to be decidable.
    let otherwise: RowPlan

    /// True if there is a WHERE.
    var hasCondition: Bool {
        if case .group(.filter, _) = otherwise { return true }
        return condition != nil
    }
}

/// SQL's parts do not say what the evaluator would: the rows are evaluated here instead.
struct Undecidable: Error {}

extension RowRunner {
    func run(_ pushed: PushedGrouping, _ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        guard let pushing = source.pushing else { preconditionFailure("planned on a source with SQL") }
        let table: GroupTable
        do {
            if let join = pushed.join, try !decides(join, pushing) { throw Undecidable() }
            table = try PushedGroups(pushed: pushed, runner: self).table(of: pushing)
        } catch is Undecidable {
            return try run(pushed.otherwise, visit)
        }
        return try table.forEachRow(visit)
    }
}

/// Puts the groups of one execution together.
private struct PushedGroups {
    let pushed: PushedGrouping
    let runner: RowRunner

    private struct Part {
        let first: [UInt8]
        let columns: [String?]
    }

    func table(of pushing: any PushingSource) throws -> GroupTable {
        let meter = runner.context.meter
        var parts: [Part] = []
        var rows = 0
        try pushing.rows(of: pushed.groups) { columns in
            try meter.step()
            rows += Int(columns[pushed.columns.keys.count] ?? "") ?? 0
            let first = columns[pushed.columns.keys.count + 1] ?? ""
            // The least text is that of the first pair of a join.
            let place = pushed.join == nil ? Self.bytes(hexadecimal: first) : Array(first.utf8)
            parts.append(Part(first: place, columns: columns))
            try meter.hold(parts.count)
            return true
        }
        // Groups come in the order of their first document, as the evaluator makes them.
        parts.sort { compareBytes($0.first, $1.first) < 0 }
        var table = GroupTable(pushed.grouping, meter)
        var next = parts.startIndex
        if let rough = pushed.rough {
            var row = runner.row()
            try pushing.documents(of: rough) { record in
                try meter.step()
                row.documents[pushed.source] = record
                if let condition = pushed.condition, try !runner.evaluator.isTrue(condition, row) {
                    return true
                }
                guard pushed.grouping.aggregates.allSatisfy({ $0.kind == .count }) else {
                    throw Undecidable()
                }
                while next < parts.endIndex, compareBytes(parts[next].first, record.id.bytes) < 0 {
                    try add(parts[next], to: &table)
                    next += 1
                }
                rows += 1
                try table.add(row, runner.evaluator)
                return true
            }
        }
        for part in parts[next...] { try add(part, to: &table) }
        meter.foundNothing = rows == 0
        runner.context.statistics?.documents += rows
        return table
    }

    private func add(_ part: Part, to table: inout GroupTable) throws {
        let columns = part.columns
        let keys = try pushed.grouping.keys.indices.map { try Self.key(columns[$0], isShown: true) }
        let count = Int64(columns[pushed.columns.keys.count] ?? "") ?? 0
        guard count > 0 else { return }
        var place = pushed.columns.keys.count + 2
        try table.addPart(keys) { index, accumulator in
            if let column = pushed.columns.distinct[index] {
                let value = try Self.key(
                    columns[column], isShown: pushed.grouping.aggregates[index].kind != .count)
                return accumulator.add(value)
            }
            let aggregate = pushed.columns.aggregates[index]
            guard aggregate.field != nil else { return accumulator.add(rows: count) }
            try accumulator.add(PushedPart(columns[place..<(place + aggregate.width)]))
            place += aggregate.width
        }
    }

    /// A key from its JSON text. jsonb has forgotten in which order an object's keys were written, so no
    /// object is shown.
    private static func key(_ text: String?, isShown: Bool) throws -> Value? {
        guard let text else { return nil }
        if isShown, text.hasPrefix("{") || text.hasPrefix("[") && text.utf8.contains(UInt8(ascii: "{")) {
            throw Undecidable()
        }
        do {
            return try JSONText.parse(text)
        } catch {
            throw Undecidable()
        }
    }

    private static func bytes(hexadecimal text: String) -> [UInt8] {
        func digit(_ byte: UInt8) -> UInt8 { byte <= UInt8(ascii: "9") ? byte - 48 : byte - 87 }
        let digits = Array(text.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).map {
            digit(digits[$0]) << 4 | digit(digits[$0 + 1])
        }
    }
}

/// The columns of one aggregate of one group.
struct PushedPart {
    private let columns: [String?]

    init(_ columns: ArraySlice<String?>) { self.columns = Array(columns) }

    /// The number in a column; 0 if there is none.
    func count(_ column: Int) -> Int64 { columns[column].flatMap { Int64($0) } ?? 0 }
    /// The total in a column, which may exceed 64 bits.
    func total(_ column: Int) -> Int128 { columns[column].flatMap { Int128($0) } ?? 0 }
    /// The double in a column.
    func double(_ column: Int) -> Double { columns[column].flatMap { Double($0) } ?? 0 }
    /// The text in a column.
    func text(_ column: Int) -> String? { columns[column] }

    /// The numbers in a column, integers and doubles apart as they were.
    func list(_ column: Int) throws(Undecidable) -> [Value] {
        guard let text = columns[column] else { return [] }
        do {
            return try JSONText.parse("[\(text)]").arrayValue ?? []
        } catch {
            throw Undecidable()
        }
    }

    /// An integer and a double, at most one of which is there to be taken.
    /// - Throws: `Undecidable` if both are there and equal: the first one counts, and SQL does not say which
    ///   that is.
    func numbers(_ whole: Int, _ fraction: Int) throws(Undecidable) -> [Value] {
        let first = columns[whole].flatMap { Int64($0) }.map { Value.int($0) }
        let second = columns[fraction].flatMap { Double($0) }.map { Value.double($0) }
        if let first, let second, ValueOrder.collate(first, second) == 0 { throw Undecidable() }
        return [first, second].compactMap(\.self)
    }
}
