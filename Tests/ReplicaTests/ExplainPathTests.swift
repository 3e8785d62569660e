import CRDT
import DQL
import Synchronization
import TestSupport
import Testing

@testable import Replica

/// Every way to reach documents, each shown by EXPLAIN; and what each gives is what a scan gives.
@Suite("Access paths as EXPLAIN shows them")
struct ExplainPathTests {
    private static let indexes = [
        "CREATE INDEX by_a ON c (a)", "CREATE INDEX by_b ON c (b DESC)",
        "CREATE INDEX by_pq ON c (p, q DESC)",
        "CREATE INDEX by_t ON c (t)", "CREATE INDEX right_x ON r (x)",
    ]

    /// A statement and what its plan has.
    static let paths: [(statement: String, plan: [String])] = [
        ("SELECT * FROM c WHERE other = 1", [#""scan""#, #""filter""#]),
        ("SELECT * FROM c WHERE _id = 7", [#""idScan""#, #""ids":[7]"#, #""fetch""#]),
        ("SELECT * FROM c WHERE _id IN (7, 8, 7)", [#""idScan""#, #""ids":[7,8"#]),
        ("SELECT * FROM c USE IDS 7", [#""idScan""#]),
        ("SELECT * FROM c WHERE a = 3", [#""indexScan""#, "by_a", #""equal":[3]"#, #""fetch""#]),
        (
            "SELECT * FROM c WHERE a > 3 AND a <= 5",
            [
                "by_a", #""from":{"after":3}"#, #""to":{"after":5}"#, #""rangeCount":1"#,
            ]
        ),
        ("SELECT * FROM c WHERE b < 3", ["by_b", #""from":{"beforeType":"number"}"#, #""to":{"before":3}"#]),
        (
            "SELECT * FROM c WHERE p = 1 AND q > 2",
            [
                "by_pq", #""equal":[1]"#, #""from":{"after":2}"#, #""to":{"afterType":"number"}"#,
            ]
        ),
        (
            "SELECT * FROM c WHERE a IN (1, 2, 5)",
            [
                "by_a", #""equal":[1]"#, #""equal":[2]"#, #""equal":[5]"#, #""rangeCount":3"#,
            ]
        ),
        ("SELECT * FROM c WHERE t LIKE 'x1%'", ["by_t", #""before":"x1""#, #""afterPrefix":"x1""#]),
        ("SELECT * FROM c WHERE a IS MISSING", ["by_a", #""equal":["MISSING"]"#]),
        ("SELECT * FROM c WHERE a IS NULL", ["by_a", #""equal":[null]"#]),
        (
            "SELECT * FROM c USE INDEX 'by_a' WHERE a != 3",
            [
                "by_a", #""to":{"before":3}"#, #""from":{"after":3}"#, #""rangeCount":2"#,
            ]
        ),
        (
            "SELECT * FROM c WHERE a = 3 OR t = 'x1' OR _id = 7",
            [
                #""unionScan""#, "by_a", "by_t", #""idScan""#, #""fetch""#,
            ]
        ),
        (
            "SELECT * FROM c WHERE a > 1 AND a < 4 AND t >= 'x1' AND t < 'x3'",
            [
                #""intersectScan""#, "by_a", "by_t", #""fetch""#,
            ]
        ),
        (
            "SELECT a FROM c WHERE a > 2 ORDER BY a",
            [#""indexScan""#, "by_a", #""covers":true"#, #""filter""#]
        ),
        ("SELECT COUNT(*) AS n FROM c WHERE a > 2", [#""indexScan""#, #""takes":"count""#]),
        ("SELECT COUNT(*) AS n FROM c", [#""countScan""#]),
        (
            "SELECT * FROM c ORDER BY a LIMIT 3",
            [#""indexScan""#, #""direction":"forward""#, #""limit":"3""#]
        ),
        ("SELECT * FROM c ORDER BY a DESC LIMIT 3", [#""direction":"backward""#, #""limit":"3""#]),
        ("SELECT * FROM c ORDER BY b DESC LIMIT 3", ["by_b", #""direction":"forward""#]),
        ("SELECT * FROM c ORDER BY p DESC, q LIMIT 3", ["by_pq", #""direction":"backward""#]),
        ("SELECT * FROM c WHERE p = 2 ORDER BY q DESC LIMIT 3", ["by_pq", #""direction":"forward""#]),
        ("SELECT * FROM c ORDER BY other LIMIT 3", [#""scan""#, #""sort""#, #""method":"topRows""#]),
        ("SELECT * FROM c ORDER BY other", [#""scan""#, #""sort""#, #""method":"external""#]),
        ("SELECT c._id, r._id AS other FROM c JOIN r ON r.x = c.a", [#""nlJoin""#, "right_x"]),
        ("SELECT c._id, r.x FROM c JOIN r ON r._id = c.a", [#""nlJoin""#, #""idScan""#, #""fetch""#]),
        (
            "SELECT c._id, r.x FROM c LEFT JOIN r ON r._id = c.a",
            [#""nlJoin""#, #""type":"left""#, #""idScan""#]
        ),
        ("SELECT * FROM c WHERE a = 1 AND a = 'x'", [#""empty":true"#]),
    ]

    @Test("each path is taken, and its rows are those of a scan")
    func taken() throws {
        try withPeer { replica, _ in
            try replica.insert(0..<90) { number in
                var fields: [ObjectValue.Entry] = [
                    (key: "b", value: .int(Int64(number % 7))), (key: "p", value: .int(Int64(number % 3))),
                    (key: "q", value: .int(Int64(number % 5))), (key: "t", value: .string("x\(number % 4)")),
                    (key: "other", value: .int(Int64(number * 37 % 11))),
                ]
                if number % 9 != 0 { fields.append((key: "a", value: .int(Int64(number % 8)))) }
                if number % 18 == 0 { fields.append((key: "a", value: .null)) }
                return ObjectValue(fields)
            }
            try replica.execute(
                "INSERT INTO r DOCUMENTS ({'_id': 1, 'x': 2}), ({'_id': 5, 'x': 5}), ({'_id': 9})")
            for statement in Self.indexes {
                let change = try #require(try PreparedStatement(statement).indexChange(SystemParameters()))
                try replica.change(change)
            }
            var options = ExecutionOptions()
            options.usesIndexes = false
            for (statement, parts) in Self.paths {
                let plan = try #require(try replica.rows("EXPLAIN \(statement)").first)
                for part in parts { #expect(plan.contains(part), "\(part) of \(statement)\n\(plan)") }
                let prepared = try PreparedStatement(statement)
                let wanted = try replica.read { try prepared.rows(in: $0, options: options) }
                #expect(try replica.read { try prepared.rows(in: $0) } == wanted, "\(statement)\n\(plan)")
                #expect(!wanted.isEmpty || plan.contains(#""empty":true"#), "\(statement)")
            }
        }
    }

    @Test("PROFILE says how long reading the statement and choosing its plan took")
    func times() throws {
        try withPeer { replica, _ in
            try replica.insert(0..<3) { ["a": .int(Int64($0))] }
            // A clock that goes one on each time it is asked.
            let clock = Mutex<UInt64>(0)
            var options = ExecutionOptions()
            options.nanoseconds = {
                clock.withLock { now in
                    now += 1
                    return now
                }
            }
            for statement in ["PROFILE SELECT * FROM c WHERE a > 0", "PROFILE DELETE FROM c WHERE a = 1"] {
                let prepared = try PreparedStatement(statement)
                let rows = try replica.write { transaction in
                    try prepared.execute(in: transaction, options: options) { try DocumentID(.int(0)) }.rows
                }.value
                let times = rows.last?["~request_profile"]?["times"]
                #expect(times?["parse"] == .int(1), "\(rows)")
                #expect(times?["plan"] == .int(1))
                #expect(times?["elapsed"]?.intValue ?? 0 >= 2)
            }
        }
    }
}
