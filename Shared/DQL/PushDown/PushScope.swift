import CRDT

/// A table that an expression in SQL reads.
enum PushedTable: Int, Comparable, Sendable {
    /// The only one of its statement.
    case only
    /// The one on the left of a join.
    case left
    /// The one on the right of a join.
    case right

    /// The text before the name of a column.
    var prefix: SQL {
        switch self {
        case .only: ""
        case .left: "l."
        case .right: "r."
        }
    }

    static func < (one: PushedTable, other: PushedTable) -> Bool { one.rawValue < other.rawValue }
}

/// The names that an expression may read: fields of some sources, and the variables of the expressions
/// around.
struct PushScope {
    /// Each source with its table.
    let tables: [(source: Int, table: PushedTable)]
    /// The values that the statement computes before others.
    let steps: PushedSteps?
    var locals: [PushedValue] = []

    /// The documents of one source.
    init(source: Int, steps: PushedSteps? = nil) {
        tables = [(source, .only)]
        self.steps = steps
    }

    /// The pairs of a join.
    init(left: Int, right: Int) {
        tables = [(left, .left), (right, .right)]
        steps = nil
    }
}

/// The documents about which SQL cannot decide. They come along, and the evaluator judges them.
struct Doubt {
    /// A top-level key that is read.
    struct Key: Hashable {
        let table: PushedTable
        /// The name in UTF-8: Swift takes different spellings of a character for equal.
        let name: [UInt8]

        init(_ name: String, of table: PushedTable) { (self.table, self.name) = (table, Array(name.utf8)) }
    }

    /// A test that holds for further documents in doubt; never NULL.
    struct Test: Equatable {
        let sql: SQL
        /// The tables that it reads.
        let tables: Set<PushedTable>
    }

    /// The keys that are read: a document that is rough under one of them is in doubt.
    var keys: Set<Key> = []
    var tests: [Test] = []

    static func + (left: Doubt, right: Doubt) -> Doubt {
        Doubt(
            keys: left.keys.union(right.keys),
            tests: left.tests + right.tests.filter { !left.tests.contains($0) })
    }

    /// The same doubt, and that of a test which may be NULL and reads what the doubt is about.
    func or(_ test: SQL) -> Doubt {
        self + Doubt(tests: [Test(sql: "coalesce(\(test), false)", tables: Set(keys.map(\.table)))])
    }

    /// The doubt about the documents of one table.
    func about(_ table: PushedTable) -> Doubt {
        Doubt(
            keys: keys.filter { $0.table == table }, tests: tests.filter { $0.tables.isSubset(of: [table]) })
    }

    /// The doubt about pairs of documents, of which neither is in doubt by itself.
    var aboutPairs: Doubt { Doubt(tests: tests.filter { $0.tables.count > 1 }) }

    /// The length of its tests' literals.
    var textBytes: Int { tests.reduce(0) { $0 + $1.sql.textBytes } }

    /// True if there is none about any document.
    var isEmpty: Bool { keys.isEmpty && tests.isEmpty }

    /// A test that holds for the documents in doubt. Never NULL.
    var sql: SQL {
        var parts: [SQL] = []
        for table in Set(keys.map(\.table)).sorted() {
            let names = keys.filter { $0.table == table }.map(\.name).sorted { compareBytes($0, $1) < 0 }
            let texts = names.map { String(decoding: $0, as: UTF8.self) }
            let rough: SQL = "\(table.prefix)rough"
            parts.append(
                "(\(rough) IS NOT NULL AND (\(rough) = '{}' OR \(rough) && \(.texts(texts))))")
        }
        parts += tests.map(\.sql)
        return parts.isEmpty ? "false" : "(\(SQL.joined(parts, " OR ")))"
    }
}

/// The values that a statement computes once for each document, because others are made of them: what an
/// operator or function makes has its operands several times in its text. Each is a subselect beside the
/// table, which the server does not take apart. Belongs to the planning of one statement.
final class PushedSteps {
    private var made: [(value: SQL, step: SQL)] = []

    /// A long value as the column of a step; nil if there are too many steps.
    func bind(_ value: PushedValue) -> PushedValue? {
        let known = made.firstIndex { $0.value == value.value }
        guard known != nil || made.count < DQLLimits.pushedSteps else { return nil }
        let place = known ?? made.count
        let name: SQL = "s\(.number(place))"
        if known == nil {
            let doubt = Doubt(tests: value.doubt.tests).sql
            made.append(
                (
                    value.value,
                    " CROSS JOIN LATERAL (SELECT \(value.value) AS v, \(doubt) AS d OFFSET 0) AS \(name)"
                ))
        }
        var doubt = Doubt(keys: value.doubt.keys)
        if !value.doubt.tests.isEmpty { doubt = doubt.or("\(name).d") }
        return PushedValue("\(name).v", doubt: doubt)
    }

    /// The number of steps.
    var count: Int { made.count }

    /// Forgets all but the first steps: nothing reads the others.
    func takeBack(to count: Int) { made.removeSubrange(count...) }

    /// The subselects, behind the name of the table.
    var sql: SQL { SQL.joined(made.map(\.step), "") }
}

extension PushedValue {
    /// A value that another one is made of; nil for what SQL cannot compute.
    static func operand(_ expression: BoundExpression, _ scope: PushScope) -> PushedValue? {
        PushedValue(expression, scope)?.bound(scope)
    }

    /// The same value with a short text: a long one becomes a step. The elements of an array are no columns
    /// of the table, so what is made of them stays where it is; nil if it is too long for that.
    func bound(_ scope: PushScope) -> PushedValue? {
        guard isModest else { return nil }
        guard let steps = scope.steps, scope.locals.isEmpty, value.textBytes > DQLLimits.pushedOperandBytes
        else { return self }
        return steps.bind(self)
    }
}
