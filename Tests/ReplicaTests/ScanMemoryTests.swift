import CRDT
import DQL
import TestSupport
import Testing

@testable import Replica

/// The memory of a scan does not grow with its collection: with room for only a few rows, statements over
/// many documents have the same results as with unlimited room. (`scripts/bench-queries` samples the
/// process's memory.)
@Suite("The memory of scans")
struct ScanMemoryTests {
    private static let documents = 3_000

    @Test(
        "statements that scan, filter, group into a few and want the first of an order hold a few rows",
        arguments: [
            "SELECT * FROM c", "SELECT * FROM c WHERE a > 100", "SELECT COUNT(*) AS n FROM c WHERE b = 'b3'",
            "SELECT b, COUNT(*) AS n, AVG(a) AS m, MIN(a) AS least FROM c GROUP BY b",
            "SELECT DISTINCT b FROM c", "SELECT _id, a FROM c ORDER BY a DESC, _id LIMIT 10",
            "SELECT * FROM c ORDER BY b, a LIMIT 5 OFFSET 20", "SELECT a FROM c ORDER BY a",
            "SELECT * FROM c WHERE a >= 10 AND a < 2000 ORDER BY a", "SELECT * FROM c WHERE a = 17",
            "SELECT l.a FROM c AS l JOIN c AS r ON r._id = l._id WHERE l.b = 'b1'",
        ])
    func bounded(_ statement: String) throws {
        try withPeer { replica, _ in
            try replica.insert(0..<Self.documents) {
                ["a": .int(Int64($0 * 7 % 2_999)), "b": .string("b\($0 % 20)"), "t": "a text of some length"]
            }
            try replica.createIndex("a", on: "a")
            let prepared = try PreparedStatement(statement)
            var narrow = ExecutionOptions()
            narrow.materializedRows = 32
            narrow.materializedBytes = 16_384
            let (few, all) = try replica.read { transaction in
                (
                    try prepared.rows(in: transaction, options: narrow),
                    try prepared.rows(in: transaction)
                )
            }
            #expect(few == all)
        }
    }

    @Test(
        "what has to hold everything says so",
        arguments: ["SELECT DISTINCT a FROM c", "SELECT a, COUNT(*) AS n FROM c GROUP BY a"])
    func refused(_ statement: String) throws {
        try withPeer { replica, _ in
            try replica.insert(0..<100) { ["a": .int(Int64($0))] }
            var few = ExecutionOptions()
            few.materializedRows = 32
            var small = ExecutionOptions()
            small.materializedBytes = 1_000
            for narrow in [few, small] {
                let error = #expect(throws: DQLError.self) {
                    try replica.read { try PreparedStatement(statement).rows(in: $0, options: narrow) }
                }
                #expect(error?.code.rawValue == "DQL-0405")
                #expect(error?.message.contains("have to be held in memory") == true)
                // The store is what it was: the next statement has its answer.
                #expect(try replica.rows("SELECT COUNT(*) AS n FROM c") == [#"{"n":100}"#])
                #expect(try replica.rows(statement).count == 100)
            }
        }
    }
}
