import CRDT
import DQL
import TestSupport
import Testing

@testable import DittoSwift

@Suite("What an observer was told last")
struct ResultPrintTests {
    private func rows(_ ditto: Ditto, _ query: String = "SELECT * FROM c") throws -> [KeptRow] {
        try ditto.store.engine.read(PreparedStatement(query), ObjectValue()).kept
    }

    @Test("a value that is written again changes a document's bytes, and nothing that is told")
    func sameContent() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2})")
            let before = try rows(ditto)
            let first = ResultPrint(before, after: nil)
            try await ditto.store.execute(query: "UPDATE c SET n = 1 WHERE _id = 1")
            let after = try rows(ditto)
            let bytes = [before, after].map { rows in rows[0].withDocument { _, document in hash64(document) }
            }
            #expect(bytes[0] != nil && bytes[0] != bytes[1])
            let second = ResultPrint(after, after: first)
            #expect(second.says(whatSays: first))
            try await ditto.store.execute(query: "UPDATE c SET n = 2 WHERE _id = 1")
            let third = ResultPrint(try rows(ditto), after: second)
            #expect(!third.says(whatSays: second))
        }
    }

    @Test("a large result is told from another one, and from itself written again")
    func large() async throws {
        try await withDitto { ditto in
            let documents = (0...Limits.printedRows).map { ["_id": $0, "n": 1] as [String: Any?] }
            try await ditto.store.execute(
                query: "INSERT INTO c DOCUMENTS (:all)", arguments: ["all": documents])
            let first = ResultPrint(try rows(ditto), after: nil)
            try await ditto.store.execute(query: "UPDATE c SET n = 1 WHERE _id = 7")
            let second = ResultPrint(try rows(ditto), after: first)
            #expect(second.says(whatSays: first))
            try await ditto.store.execute(query: "UPDATE c SET n = 2 WHERE _id = 7")
            let third = ResultPrint(try rows(ditto), after: second)
            #expect(!third.says(whatSays: second))
            // Down to the limit, where rows are remembered again.
            try await ditto.store.execute(query: "DELETE FROM c WHERE _id = 7")
            let fourth = ResultPrint(try rows(ditto), after: third)
            #expect(!fourth.says(whatSays: third))
        }
    }

    @Test(
        "order, number and content of rows are told apart, whatever was known before",
        arguments: Depth.cases(fast: 40, deep: 400))
    func random(seed: Int) async throws {
        var dice = SplitMix64(seed: UInt64(seed))
        try await withDitto { ditto in
            var last: ResultPrint?
            var lastRows: [Value]?
            for _ in 0..<12 {
                let id = Int.random(in: 0..<6, using: &dice)
                let change = [
                    "UPDATE c SET n = \(id % 2) WHERE _id = \(id)", "DELETE FROM c WHERE _id = \(id)",
                ]
                .randomElement(using: &dice)
                try await ditto.store.execute(
                    query: "INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': 0}) ON ID CONFLICT DO NOTHING")
                try await ditto.store.execute(query: change ?? "")
                let direction = Bool.random(using: &dice) ? "ASC" : "DESC"
                let query = ["SELECT * FROM c ORDER BY n, _id \(direction)", "SELECT n FROM c ORDER BY _id"]
                    .randomElement(using: &dice)
                let kept = try rows(ditto, query ?? "")
                let print = ResultPrint(kept, after: last)
                let values = try kept.map { try $0.value }
                if let last { #expect(print.says(whatSays: last) == (values == lastRows), "seed \(seed)") }
                // What was known before makes no difference.
                #expect(print.says(whatSays: ResultPrint(kept, after: nil)))
                (last, lastRows) = (print, values)
            }
        }
    }
}
