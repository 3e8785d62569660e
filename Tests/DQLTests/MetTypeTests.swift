import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Types that a condition meets")
struct MetTypeTests {
    private let store = MemoryStore()

    private func warnings(_ statement: String, _ arguments: ObjectValue = ObjectValue()) throws
        -> [DQLWarning]
    {
        try StatementCompiler.compile(statement).forEachRow(in: store, arguments: arguments) { _ in true }
    }

    @Test("the warning shows the comparison, both types and its place")
    func message() throws {
        _ = try store.execute(
            "INSERT INTO zips DOCUMENTS ({'zip': '01067'}), ({'zip': '04109'}), ({'zip': true})")
        let warning = try #require(try warnings("SELECT *\nFROM zips WHERE zip = 1067").first)
        #expect(warning.code == .neverEqual)
        #expect(warning.position == SourcePosition(line: 2, column: 17))
        #expect(
            warning.message
                == "zip = 1067 compares zip with a number, and every zip that was met is a boolean "
                + "or a string: that is never true")
        let list = try #require(try warnings("SELECT * FROM zips WHERE zip IN :l", ["l": [1, [2]]]).first)
        #expect(
            list.message == "zip IN :l compares zip with a number or an array, and every zip that was met is "
                + "a boolean or a string: that is never true")
        let call = try #require(try warnings("SELECT * FROM zips WHERE abs(zip) > 5").first)
        #expect(call.code == .literalType)
        #expect(
            call.message == "abs takes a number, and every zip that was met is a boolean or a string: "
                + "always MISSING")
    }

    @Test("sums say how many values they left out, ids and conditions which types were met")
    func leftOut() throws {
        _ = try store.execute(
            "INSERT INTO paid DOCUMENTS ({'_id': '7', 'sum': 1}), ({'_id': '8', 'sum': '2,50'}), "
                + "({'_id': '9', 'sum': true, 'done': 'yes'})")
        #expect(
            try warnings("SELECT AVG(sum) AS s, COUNT(*) AS n FROM paid").map(\.message) == [
                "AVG(sum) takes numbers, and 2 values that are none were left out"
            ])
        #expect(
            try warnings("SELECT SUM(DISTINCT sum) AS s FROM paid WHERE _id != '9'").map(\.message) == [
                "SUM(DISTINCT sum) takes numbers, and 1 value that is none was left out"
            ])
        #expect(
            try warnings("SELECT * FROM paid WHERE _id = 7").map(\.message) == [
                "_id = 7 compares _id with a number, and every _id that was met is a string: that is "
                    + "never true"
            ])
        #expect(
            try warnings("SELECT * FROM paid WHERE done").map(\.message) == [
                "the condition takes a boolean, and every done that was met is a string: never true"
            ])
    }

    @Test("fields of two sides are named with their types, and a misspelt one with the nearest name")
    func sides() throws {
        _ = try store.execute("INSERT INTO a DOCUMENTS ({'_id': 'x', 'n': '1', 'o': {'depth': 1}})")
        _ = try store.execute("INSERT INTO b DOCUMENTS ({'_id': 'y', 'm': 1}), ({'_id': 'z', 'm': true})")
        #expect(
            try warnings("SELECT * FROM a JOIN b USE INDEX '' ON a.n = b.m").map(\.message) == [
                "a.n = b.m compares a.n with b.m, and every a.n that was met is a string, every b.m a "
                    + "boolean or a number: that is never true"
            ])
        let nested = try #require(try warnings("SELECT *\nFROM a WHERE o.dpeth = 1").first)
        #expect(nested.code == .unknownField && nested.position == SourcePosition(line: 2, column: 14))
        #expect(
            nested.message
                == "no document of a that was looked at has the field o.dpeth; did you mean depth?")
        _ = try store.execute("INSERT INTO films DOCUMENTS ({'_id': 1, 'US Gross': 5})")
        #expect(
            try warnings("SELECT US Gross FROM films").map(\.message) == [
                "no document of films that was looked at has the field US; did you mean `US Gross`?"
            ])
        #expect(
            try warnings("SELECT * FROM b WHERE zzzz = 1").map(\.message) == [
                "no document of b that was looked at has the field zzzz"
            ])
        let rows = try warnings("SELECT n FROM a GROUP BY n HAVING n = 1").map(\.message)
        #expect(
            rows == [
                "n = 1 compares n with a number, and every n that was met is a string: that is never true"
            ])
    }

    @Test("a row that fits is looked at and nothing else, so that a projection costs no scan")
    func firstRow() throws {
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1, 'm': 'x'}), ({'_id': 2, 'n': 2})")
        for statement in [
            "SELECT n, m FROM c WHERE _id = 1", "SELECT n = 1 AS same, m || 'y' AS k FROM c LIMIT 1",
            "SELECT n FROM c ORDER BY n DESC", "SELECT * FROM c ORDER BY n",
        ] {
            let counted = CountedScans(store: store)
            _ = try StatementCompiler.compile(statement).rows(in: counted)
            #expect(counted.scans <= 1, "\(statement)")
        }
        let counted = CountedScans(store: store)
        _ = try StatementCompiler.compile("SELECT n = 'x' AS same FROM c LIMIT 1").rows(in: counted)
        #expect(counted.scans == 2)
    }

    /// Counts the scans of a store.
    private final class CountedScans: DocumentSource {
        private let store: MemoryStore
        private(set) var scans = 0

        init(store: MemoryStore) { self.store = store }

        func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
            scans += 1
            try store.scan(collection, visit)
        }
        func lookup(
            _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
        ) throws { try store.lookup(collection, id, visit) }
    }

    @Test("only the first documents are looked at, and none once a type fits")
    func bounded() throws {
        for number in 0..<DQLLimits.typedDocuments {
            _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 'n': 'x'})")
        }
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 9999, 'n': 1})")
        #expect(try warnings("SELECT * FROM c WHERE n = 5").map(\.code) == [.neverEqual])
        _ = try store.execute("UPDATE c SET n = 1 WHERE _id = 0")
        #expect(try warnings("SELECT * FROM c WHERE n = 5").isEmpty)
    }

    @Test("the warnings about literals say what is taken and what was given")
    func literals() throws {
        let messages = try [
            "'a' || 1", "lower([1])", "substr('abc', 'x')", "5 LIKE '5'", "'x' LIKE 'y' ESCAPE 'ab'",
            "1 + 2 || 'x'", "date_part('2024-01-31', 'year')", "date_part('year', '2024-01-31')",
            "date_add('2024-01-31T08:00:00', 'day', 1)", "date_part('soon', 'year')",
        ].map { try warnings("SELECT RAW \($0) FROM system:dual").map(\.message) }
        #expect(
            messages == [
                ["|| takes a string, and 1 is an integer: always MISSING"],
                ["lower takes a string, and [1] is an array: always MISSING"],
                ["argument 2 of substr takes an integer, and 'x' is a string: always MISSING"],
                ["LIKE takes a string, and 5 is an integer: always MISSING"],
                ["ESCAPE takes one character, and 'ab' is a string of 2 characters: always MISSING"],
                ["|| takes a string, and its left operand is a number: always MISSING"],
                ["date_part takes a date with its zone, as '2024-01-31T00:00:00Z': always MISSING"],
                [
                    "date_part has no date part '2024-01-31'; the date comes before the part: always MISSING"
                ],
                ["date_add takes a date with its zone, as '2024-01-31T08:00:00Z': always MISSING"],
                ["date_part cannot read 'soon' as a date: always MISSING"],
            ])
    }
}
