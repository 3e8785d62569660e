import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Plans as trees")
struct PlanTreeTests {
    private let store = MemoryStore(usesIndexes: true)

    init() throws {
        _ = try store.execute("CREATE INDEX by_year ON cars (year)")
        _ = try store.execute("CREATE INDEX by_make ON cars (make)")
        _ = try store.execute(
            "INSERT INTO cars DOCUMENTS ({'_id': 1, 'year': 1999, 'make': 'Saab'}), ({'_id': 2, 'make': 'x'})"
        )
    }

    private func tree(_ statement: String) throws -> String? {
        try store.execute(statement).rows.last.flatMap(PlanTree.text(of:))
    }

    @Test("the last step stands first, and each step's input below it")
    func chain() throws {
        #expect(
            try tree("EXPLAIN SELECT make FROM cars AS c WHERE color = 'red' ORDER BY price DESC LIMIT 5")
                == """
                finalProjection
                └─ projection  make
                   └─ limit  limit 5
                      └─ sort  by price DESC  method topRows
                         └─ filter  color = 'red'
                            └─ scan  cars AS c

                """)
    }

    @Test("an index is shown with its ranges")
    func index() throws {
        let text = try #require(try tree("EXPLAIN SELECT * FROM cars WHERE year > 2000 AND year <= 2020"))
        #expect(text.contains("└─ fetch  cars\n"))
        #expect(text.contains("└─ indexScan  cars.by_year  from after 2000 to after 2020  forward\n"))
    }

    @Test("the scans of a union stand side by side, and the sides of a join")
    func branches() throws {
        let union = try #require(try tree("EXPLAIN SELECT * FROM cars WHERE year = 1 OR make = 'x'"))
        #expect(union.contains("├─ indexScan  cars.by_"))
        #expect(union.contains("└─ indexScan  cars.by_"))
        let join = try #require(
            try tree("EXPLAIN SELECT * FROM cars AS a LEFT JOIN cars AS b ON b._id = a.next"))
        #expect(join.contains("nlJoin  left  on b._id = a.next\n"))
        #expect(join.contains("├─ scan  cars AS a\n"))
        #expect(join.contains("└─ fetch  cars\n"))
    }

    @Test("PROFILE tells what ran and how many documents passed each step")
    func profile() throws {
        let text = try #require(try tree("PROFILE SELECT make FROM cars WHERE make LIKE '%a%'"))
        #expect(text.hasPrefix("select: 1 results\n"))
        #expect(text.contains("filter  make LIKE '%a%'  (in 2, out 1)\n"))
    }

    @Test("times are milliseconds")
    func times() {
        let row: Value = [
            "~request_profile": [
                "plan": ["#operator": "sequence", "children": [["#operator": "scan", "collection": "c"]]],
                "queryType": "select", "resultCount": 3,
                "times": ["elapsed": 12_034_567, "parse": 5_000, "plan": 1_000_000],
            ]
        ]
        #expect(
            PlanTree.text(of: row)
                == "select: 3 results in 12.034 ms (parse 0.005 ms, plan 1.000 ms)\nscan  c\n")
    }

    @Test("what a later version adds is shown with its name")
    func unknown() {
        let row: Value = ["plan": ["#operator": "hashJoin", "buckets": 7, "child": ["#operator": "scan"]]]
        #expect(PlanTree.text(of: row) == "hashJoin  buckets 7\n└─ scan\n")
    }

    @Test(
        "rows that are no plan are left to their caller",
        arguments: [
            Value.null, ["plan": "A"], ["plan": ["a": 1]], ["plan": ["#operator": "scan"], "a": 1], 5,
        ])
    func others(_ row: Value) {
        #expect(PlanTree.text(of: row) == nil)
    }
}
