import CRDT
import Testing

@testable import Mimeo

@Suite("The rows of a live query")
struct ObservedRowsTests {
    @Test("warnings are those of all parts of a result, then those of the last change")
    func warnings() throws {
        var rows = ObservedRows()
        let first: Value = ["event": "result", "items": [1], "more": true, "warnings": ["a"]]
        let isWhole = try rows.apply(first)
        let last: Value = ["event": "result", "transactionId": 1, "items": [2], "warnings": ["b"]]
        let isWholeThen = try rows.apply(last)
        #expect(!isWhole && isWholeThen)
        #expect(rows.rows == [1, 2] && rows.warnings == ["a", "b"])
        let change: Value = [
            "event": "change", "transactionId": 2, "insertions": [2], "deletions": [], "updates": [],
            "moves": [], "rows": [[2, 3]],
        ]
        let hasChanged = try rows.apply(change)
        #expect(hasChanged)
        #expect(rows.rows == [1, 2, 3] && rows.warnings.isEmpty)
    }
}
