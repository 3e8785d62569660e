import CRDT
import DQL
import DQLCorpus
import Foundation
import TestSupport
import Testing

@testable import Replica

/// Every statement of every relation has to give what the naive evaluator gives without any index, row for
/// row, in the same order: an index changes not even an order that nobody promised.
@Suite("Indexes change no answer")
struct IndexAgreementTests {
    @Test(
        "on stores with random indexes every relation holds, and every answer is the naive one",
        arguments: RelationCases.chunks(fast: 500))
    func agrees(_ cases: Range<Int>) throws {
        try withTemporaryDirectory { folder in
            var stores = 0
            let reports = try RelationRun(documents: 12).violations(of: cases) { store in
                stores += 1
                let engine = try ReplicaEngine(folder: folder.appendingPathComponent("\(stores)"))
                try RandomIndexes.create(on: engine, seed: UInt64(store))
                return EnginePair(MemoryStore(isSorted: false), engine)
            }
            #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
        }
    }

    @Test(
        "statements made for indexes give the same by scan, by index and naively, while the documents change",
        arguments: RelationCases.chunks(fast: 250))
    func statements(_ cases: Range<Int>) throws {
        try withTemporaryDirectory { folder in
            for seed in stride(from: cases.lowerBound, to: cases.upperBound, by: IndexedWorld.statements) {
                let world = try IndexedWorld(
                    folder: folder.appendingPathComponent("\(seed)"), seed: UInt64(seed))
                let reports = try world.run()
                #expect(reports == [], "MIMEO_SEED=\(seed): \(reports.joined(separator: "\n"))")
                try world.close()
            }
        }
    }
}

/// A naive store and one on disk that go through the same random changes; the one on disk has indexes that
/// come and go.
final class IndexedWorld {
    /// How many statements are asked of one world.
    static let statements = 50

    private let naive = MemoryStore(isSorted: false)
    private let replica: PeerReplica
    private var random: SplitMix64
    private var indexes: Set<Int> = []
    /// Held prepared as applications hold them, while documents and indexes change.
    private let prepared: [PreparedStatement]

    init(folder: URL, seed: UInt64) throws {
        random = SplitMix64(seed: seed)
        replica = try open(folder, TestEnvironment(seed: seed))
        prepared = try Self.kept.map { try PreparedStatement($0) }
    }

    /// Statements of the shapes that are executed without being planned each time, and some that nearly are.
    private static let kept = [
        "SELECT * FROM c WHERE _id = :v", "SELECT * FROM c WHERE :w = _id", "SELECT * FROM c WHERE a = :v",
        "SELECT * FROM c WHERE b = :v ORDER BY b", "SELECT * FROM c WHERE :v = n LIMIT 2",
        "SELECT * FROM c WHERE a > :v", "SELECT * FROM c WHERE :v <= a ORDER BY a DESC",
        "SELECT * FROM c WHERE a >= :v AND a < :w ORDER BY a LIMIT 3",
        "SELECT * FROM c WHERE n < :w AND n > :v ORDER BY n DESC LIMIT 4 OFFSET 1",
        "SELECT * FROM c WHERE b BETWEEN :v AND :w ORDER BY b NULLS FIRST LIMIT 4",
        "SELECT * FROM c WHERE m.x <= :v ORDER BY m.x", "SELECT * FROM c WHERE m.y = :v AND m.y < :w",
        "SELECT * FROM c WHERE a < :v AND b > :w", "SELECT * FROM c WHERE a >= :v LIMIT 0",
    ]

    private func argument() -> Value {
        random.pick([
            0, 1, 2, 3, 4, 5, 7, 20, 1.0, 1.5, -1, 9_007_199_254_740_993, 9_007_199_254_740_992.0, "", "a",
            "ab", "abc", "b", true, .null, [1], ["k": 1],
            .string(String(repeating: "x", count: ReplicaLimits.indexPartBytes)),
        ])
    }

    func close() throws { try replica.close() }

    func run() throws -> [String] {
        var reports: [String] = []
        for _ in 0..<(5 + random.below(40)) { try insert() }
        for _ in 0..<Self.statements where reports.isEmpty {
            switch random.below(10) {
            case 0, 1: try change("UPDATE c SET \(path()) = \(value()) WHERE \(condition())")
            case 2: try insert()
            case 3:
                try change(
                    random.pick([
                        "DELETE FROM c WHERE \(condition())", "EVICT FROM c WHERE \(condition())",
                        "UPDATE c UNSET \(path()) WHERE \(condition())",
                        "DELETE FROM c WHERE \(condition()) ORDER BY \(path()) DESC, _id LIMIT 2",
                    ]))
            case 4, 5: try changeIndexes()
            default: break
            }
            if let report = try difference(select()) { reports.append(report) }
            let arguments = ObjectValue([(key: "v", value: argument()), (key: "w", value: argument())])
            if let report = try difference(random.pick(prepared), arguments) { reports.append(report) }
            if random.chance(25), let report = try joinDifference() { reports.append(report) }
        }
        return reports + (try replica.indexFaults())
    }

    // MARK: Changes

    private func insert() throws {
        let fields = ["a", "b", "n"].filter { _ in random.chance(75) }.map { "'\($0)': \(value())" }
        let map = random.chance(60) ? ["'m': {'x': \(value()), 'y': \(random.below(4))}"] : []
        let id = random.below(60)
        try change(
            "INSERT INTO c DOCUMENTS ({\((["'_id': \(id)"] + fields + map).joined(separator: ", "))}) "
                + "ON ID CONFLICT DO UPDATE")
    }

    private func change(_ statement: String) throws {
        _ = try naive.execute(statement)
        try replica.execute(statement)
    }

    private func changeIndexes() throws {
        let number = random.below(8)
        if indexes.remove(number) != nil {
            try replica.change(.drop(collection: "c", name: "i\(number)", ifExists: false))
            return
        }
        indexes.insert(number)
        let paths = (0..<(1 + random.below(3))).map { _ in random.pick(["a", "b", "n", "m", "m.x", "m.y"]) }
        let keys = paths.enumerated().filter { place, path in !paths[..<place].contains(path) }.map {
            _, path in
            (random.chance(40) ? "-" : "") + (random.chance(10) ? "!" : "") + path
        }
        if random.chance(15) {
            // Left as a crash in its midst would leave it.
            try replica.store.begin(index("i\(number)", on: keys), ifNotExists: false)
        } else {
            try replica.change(.create(index("i\(number)", on: keys), ifNotExists: false))
        }
    }

    // MARK: Statements

    private func select() -> String {
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

    private func order() -> String {
        let terms = (0..<(1 + random.below(2))).map { _ in
            path() + random.pick(["", " ASC", " DESC", " DESC", " NULLS FIRST"])
        }
        return "ORDER BY " + terms.joined(separator: ", ")
    }

    private func condition(depth: Int = 2) -> String {
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

    private func path() -> String { random.pick(["a", "b", "n", "m.x", "m.y", "m", "a", "b"]) }

    private func value() -> String {
        let long = String(repeating: "x", count: ReplicaLimits.indexPartBytes)
        return random.pick([
            "0", "1", "2", "1.0", "1.5", "(-1)", "9007199254740993", "9007199254740992.0", "'a'", "'ab'",
            "'abc'",
            "'b'", "''", "true", "false", "null", "[]", "[1]", "[1.0, 'a']", "{}", "{'k': 1}", "{'k': 1.0}",
            "{'b': 1.0, 'aa': [2]}",
            "'a\\u0000'", "'\(long)'", "'\(long)y'", "'\(long)z'", "3", "4", "5",
        ])
    }

    /// The difference between the naive answer, the scan's and the index's; nil if there is none.
    private func difference(_ statement: String) throws -> String? {
        try difference(PreparedStatement(statement), ObjectValue())
    }

    private func difference(_ prepared: PreparedStatement, _ arguments: ObjectValue) throws -> String? {
        let statement = prepared.text
        let wanted = try outcome { try self.naive.execute(statement, arguments).rows }
        for usesIndexes in [true, false] {
            var options = ExecutionOptions()
            options.usesIndexes = usesIndexes
            let found = try outcome {
                try self.replica.read { try prepared.rows(in: $0, arguments: arguments, options: options) }
            }
            guard found != wanted else { continue }
            let known = try replica.indexes().map { "\($0.row)" }.joined(separator: "\n")
            return
                "\(statement) \(arguments)\n\(usesIndexes ? "by index" : "by scan"): \(found)\n"
                + "naive: \(wanted)\n\(known)"
        }
        return nil
    }

    /// A join that an index or an id supports, beside one that scans naively.
    private func joinDifference() throws -> String? {
        let kind = random.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        let field = random.pick(["r.a", "r.b", "r.n", "r.m.x", "r._id"])
        let more = random.chance(30) ? " AND l.\(path()) != \(value())" : ""
        let on = random.chance(50) ? "\(field) = l.\(path())\(more)" : "l.\(path()) = \(field)\(more)"
        let rest = random.chance(40) ? " WHERE l.\(path()) > \(value())" : ""
        func statement(_ hint: String) -> String {
            let sources =
                kind == "RIGHT JOIN" ? "c AS r \(hint) RIGHT JOIN c AS l" : "c AS l \(kind) c AS r \(hint)"
            return "SELECT l._id AS x, r._id AS y, r.b AS z FROM \(sources) ON \(on)\(rest)"
        }
        let wanted = try outcome { try self.naive.rows(statement("USE INDEX ''")) }
        let prepared = try PreparedStatement(statement(""))
        let found = try outcome { try self.replica.read { try prepared.rows(in: $0) } }
        // Without support it is refused, which is no answer.
        guard found != wanted, !found.hasPrefix("DQL-0616") else { return nil }
        let known = try replica.indexes().map { "\($0.row)" }.joined(separator: "\n")
        return "\(prepared.text)\nby index: \(found)\nnaive: \(wanted)\n\(known)"
    }

    private func outcome(_ body: () throws -> [Value]) throws -> String {
        do {
            return try body().map { "\($0)" }.joined(separator: "\n")
        } catch let error as DQLError {
            return "\(error)"
        }
    }
}
