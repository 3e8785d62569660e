import CRDT
import DQL
import TestSupport

/// Random documents, changes, indexes and statements on a collection `c`, made for indexes: fields of few
/// values of all types, and statements that find, count, group, order and bound by them.
public struct IndexedStatements {
    /// The source of everything random.
    public var random: SplitMix64

    /// A source that is determined by its seed.
    public init(seed: UInt64) { random = SplitMix64(seed: seed) }

    /// Statements of the shapes that are executed without being planned each time, and some that nearly are.
    public static let kept = [
        "SELECT * FROM c WHERE _id = :v", "SELECT * FROM c WHERE :w = _id", "SELECT * FROM c WHERE a = :v",
        "SELECT * FROM c WHERE b = :v ORDER BY b", "SELECT * FROM c WHERE :v = n LIMIT 2",
        "SELECT * FROM c WHERE a > :v", "SELECT * FROM c WHERE :v <= a ORDER BY a DESC",
        "SELECT * FROM c WHERE a >= :v AND a < :w ORDER BY a LIMIT 3",
        "SELECT * FROM c WHERE n < :w AND n > :v ORDER BY n DESC LIMIT 4 OFFSET 1",
        "SELECT * FROM c WHERE b BETWEEN :v AND :w ORDER BY b NULLS FIRST LIMIT 4",
        "SELECT * FROM c WHERE m.x <= :v ORDER BY m.x", "SELECT * FROM c WHERE m.y = :v AND m.y < :w",
        "SELECT * FROM c WHERE a < :v AND b > :w", "SELECT * FROM c WHERE a >= :v LIMIT 0",
    ]

    /// An argument for such a statement.
    public mutating func argument() -> Value {
        random.pick([
            0, 1, 2, 3, 4, 5, 7, 20, 1.0, 1.5, -1, 9_007_199_254_740_993, 9_007_199_254_740_992.0, "", "a",
            "ab", "abc", "b", true, .null, [1], ["k": 1],
            .string(String(repeating: "x", count: DQLLimits.indexPartBytes)),
        ])
    }

    /// The arguments of one of `kept`.
    public mutating func arguments() -> ObjectValue {
        ObjectValue([(key: "v", value: argument()), (key: "w", value: argument())])
    }

    // MARK: Changes

    /// An INSERT of one document, which may be there.
    public mutating func insertion() -> String {
        let fields = ["a", "b", "n"].filter { _ in random.chance(75) }.map { "'\($0)': \(value())" }
        let map = random.chance(60) ? ["'m': {'x': \(value()), 'y': \(random.below(4))}"] : []
        let id = random.below(60)
        return "INSERT INTO c DOCUMENTS ({\((["'_id': \(id)"] + fields + map).joined(separator: ", "))}) "
            + "ON ID CONFLICT DO UPDATE"
    }

    /// An UPDATE of one field.
    public mutating func update() -> String { "UPDATE c SET \(path()) = \(value()) WHERE \(condition())" }

    /// A statement that removes documents or fields.
    public mutating func removal(evicts: Bool) -> String {
        random.pick([
            "DELETE FROM c WHERE \(condition())",
            "\(evicts ? "EVICT" : "DELETE") FROM c WHERE \(condition())",
            "UPDATE c UNSET \(path()) WHERE \(condition())",
            "DELETE FROM c WHERE \(condition()) ORDER BY \(path()) DESC, _id LIMIT 2",
        ])
    }

    /// The definition of an index.
    public mutating func index(_ name: String) -> IndexDescription {
        let paths = (0..<(1 + random.below(3))).map { _ in random.pick(["a", "b", "n", "m", "m.x", "m.y"]) }
        var keys: [IndexDescription.Key] = []
        for (place, path) in paths.enumerated() where !paths[..<place].contains(path) {
            let (isDescending, leavesOut) = (random.chance(40), random.chance(10))
            keys.append(
                IndexDescription.Key(
                    path: path.split(separator: ".").map(String.init), isDescending: isDescending,
                    includesMissing: !leavesOut))
        }
        return IndexDescription(name: name, collection: "c", keys: keys)
    }

    // MARK: Statements

    /// A SELECT.
    public mutating func select() -> String {
        let condition = random.chance(90) ? " WHERE \(condition())" : ""
        switch random.below(10) {
        case 8:
            return "SELECT MIN(\(path())) AS least, MAX(\(path())) AS most, COUNT(*) AS n FROM c"
        case 9:
            let (path, other) = (path(), path())
            let keys = random.chance(50) || other == path ? path : "\(other), \(path)"
            return "SELECT \(keys), COUNT(*) AS n, SUM(\(path)) AS s FROM c\(condition) GROUP BY \(keys)"
        case 0: return "SELECT COUNT(*) AS n FROM c\(condition)"
        case 1:
            let path = path()
            return "SELECT COUNT(\(path)) AS n, COUNT(DISTINCT \(path)) AS d FROM c\(condition)"
        case 2:
            let path = path()
            return "SELECT \(path) AS p, COUNT(*) AS n, MIN(b) AS least FROM c\(condition) GROUP BY \(path)"
        case 3: return "SELECT DISTINCT \(path()) AS p FROM c\(condition)"
        case 4: return "SELECT a, b FROM c\(condition) \(order())"
        case 5: return "SELECT _id, n FROM c\(condition) \(order()) LIMIT \(random.below(6))"
        case 6: return "SELECT * FROM c\(condition) LIMIT \(random.below(6)) OFFSET \(random.below(3))"
        default: return "SELECT * FROM c\(condition) \(random.chance(60) ? order() : "")"
        }
    }

    private mutating func order() -> String {
        let terms = (0..<(1 + random.below(2))).map { _ in
            path() + random.pick(["", " ASC", " DESC", " DESC", " NULLS FIRST"])
        }
        return "ORDER BY " + terms.joined(separator: ", ")
    }

    private mutating func condition(depth: Int = 2) -> String {
        if depth > 0, random.chance(45) {
            let left = condition(depth: depth - 1)
            switch random.below(5) {
            case 0, 1: return "(\(left) AND \(condition(depth: depth - 1)))"
            case 2, 3: return "(\(left) OR \(condition(depth: depth - 1)))"
            default: return "NOT (\(left))"
            }
        }
        let path = path()
        switch random.below(10) {
        case 0...3: return "\(path) \(random.pick(["=", "<", ">", "<=", ">=", "!="])) \(value())"
        case 4:
            return "\(path) IN (\((0..<(1 + random.below(9))).map { _ in value() }.joined(separator: ", ")))"
        case 5: return "\(path) BETWEEN \(value()) AND \(value())"
        case 6:
            return "\(path) \(random.pick(["", "NOT "]))LIKE \(random.pick(["'a%'", "'ab'", "'%'", "'_b%'"]))"
        case 7: return "\(path) IS \(random.pick(["", "NOT "]))\(random.pick(["NULL", "MISSING"]))"
        case 8: return "_id \(random.pick(["=", "<", "!="])) \(random.below(60))"
        default: return path
        }
    }

    private mutating func path() -> String { random.pick(["a", "b", "n", "m.x", "m.y", "m", "a", "b"]) }

    private mutating func value() -> String {
        let long = String(repeating: "x", count: DQLLimits.indexPartBytes)
        return random.pick([
            "0", "1", "2", "1.0", "1.5", "(-1)", "9007199254740993", "9007199254740992.0", "'a'", "'ab'",
            "'abc'",
            "'b'", "''", "true", "false", "null", "[]", "[1]", "[1.0, 'a']", "{}", "{'k': 1}", "{'k': 1.0}",
            "{'b': 1.0, 'aa': [2]}",
            "'a\\u0000'", "'\(long)'", "'\(long)y'", "'\(long)z'", "3", "4", "5",
        ])
    }

    /// A join that an index or an id supports, as a text with a hint for the joined collection.
    public mutating func join() -> (_ hint: String) -> String {
        let kind = random.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        let field = random.pick(["r.a", "r.b", "r.n", "r.m.x", "r._id"])
        let more = random.chance(30) ? " AND l.\(path()) != \(value())" : ""
        let on = random.chance(50) ? "\(field) = l.\(path())\(more)" : "l.\(path()) = \(field)\(more)"
        let rest = random.chance(40) ? " WHERE l.\(path()) > \(value())" : ""
        return { hint in
            let sources =
                kind == "RIGHT JOIN" ? "c AS r \(hint) RIGHT JOIN c AS l" : "c AS l \(kind) c AS r \(hint)"
            return "SELECT l._id AS x, r._id AS y, r.b AS z FROM \(sources) ON \(on)\(rest)"
        }
    }
}
