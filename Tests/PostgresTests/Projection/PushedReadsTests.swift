import Testing

@testable import DQL
@testable import Postgres

@Suite("How pushed statements are read")
struct PushedReadsTests {
    @Test("a statement with many rows counts as one of few again only after several such answers in a row")
    func fewRows() {
        var known = FewRows()
        known.noteMany("a")
        known.noteFew("a")
        #expect(known.contains("a") && !known.contains("b") && known.count == 1)
        known.noteMany("a")
        for _ in 1..<PostgresLimits.fewAnswers { known.noteFew("a") }
        #expect(!known.contains("a") && known.count == 0)
        known.noteMany("a")
        for _ in 1..<PostgresLimits.fewAnswers { known.noteFew("a") }
        #expect(!known.contains("a"))
        known.noteFew("a")
        #expect(known.contains("a"))
        for number in 0...PostgresLimits.preparedStatements { known.noteFew("\(number)") }
        #expect(known.count <= PostgresLimits.preparedStatements)
    }

    @Test("a statement that is expected to have few rows is asked for few until it had many")
    func expectedFew() {
        var known = FewRows()
        #expect(!known.hadMany("a"))
        known.noteMany("a")
        #expect(!known.hadMany("a"))
        known.noteMany("a", isExpectedFew: true)
        for _ in 0..<PostgresLimits.fewAnswers {
            #expect(known.hadMany("a"))
            known.noteFew("a")
        }
        #expect(!known.hadMany("a"))
    }

    @Test(
        "the rows of groups and of a first few are not taken for the number of documents",
        arguments: [
            (.filter, true), (.order, true), (.top, false), (.group, false), (.join, false),
        ] as [(PushedStatement.Part, Bool)])
    func confined(part: PushedStatement.Part, isConfined: Bool) {
        var statement = PushedStatement(
            collection: "c", part: part, sql: "SELECT 1", isExact: true, columns: 1, path: .nothing)
        #expect(statement.isConfined == isConfined)
        statement.path = nil
        #expect(!statement.isConfined)
    }

    @Test("first rows are asked for where one range of an index is read, not of one key or several ranges")
    func firstRows() {
        let keys = [IndexDescription.Key(path: ["a"]), IndexDescription.Key(path: ["b"])]
        let index = IndexDescription(name: "by_a", collection: "c", keys: keys)
        let column = KeyColumn(number: 0, partBytes: 64)
        func isInKeyOrder(_ ranges: [IndexRange]) -> Bool {
            PushedStatement.entries(
                of: IndexScan(index: index, ranges: ranges), column, withDocuments: true, withIDs: true
            ).isInKeyOrder
        }
        #expect(isInKeyOrder([IndexRange()]))
        #expect(isInKeyOrder([IndexRange(equal: [.int(1)])]))
        #expect(!isInKeyOrder([IndexRange(equal: [.int(1)]), IndexRange(equal: [.int(3)])]))
        #expect(!isInKeyOrder([IndexRange(equal: [.int(1), .int(2)])]))
        #expect(!isInKeyOrder([]))
    }
}
