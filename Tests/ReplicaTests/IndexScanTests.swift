import CRDT
import Foundation
import TestSupport
import Testing

@testable import DQL
@testable import Replica

/// Scans of an index against their meaning (`KeyRange.contains`, `IndexDescription.compare`).
@Suite("Scans of indexes")
struct IndexScanTests {
    @Test(
        "a scan finds what its ranges hold, in the index's order and against it",
        arguments: Depth.cases(fast: 2, deep: 60))
    func meaning(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        try withPeer { replica, _ in
            var rows: [(id: Int64, values: [Value?])] = []
            for id in 0..<80 {
                let values = [value(rows.last?.values[0], &random), value(rows.last?.values[1], &random)]
                let fields = zip(["a", "b"], values).compactMap { key, value in
                    value.map { (key: key, value: $0) }
                }
                try replica.insert(id..<id + 1) { _ in ObjectValue(fields) }
                rows.append((Int64(id), values))
            }
            let paths = [random.chance(50) ? "a" : "-a", random.chance(50) ? "b" : "-b"]
            try replica.createIndex("i", on: paths[0], paths[1])
            let index = try #require(try replica.description(of: "i"))
            #expect(index.isExact)
            for _ in 0..<120 {
                let range = range(rows.map(\.values), &random)
                let wanted = rows.filter { range.contains($0.values) }.sorted {
                    let order = index.compare($0.values, $1.values)
                    return order != 0 ? order < 0 : $0.id < $1.id
                }
                #expect(try replica.ids("i", [range]) == wanted.map { "\($0.id)" }, "\(range)")
                // Against the order, but documents of one key in the order of a scan.
                let reversed = wanted.sorted {
                    let order = index.compare($0.values, $1.values)
                    return order != 0 ? order > 0 : $0.id < $1.id
                }
                #expect(try replica.ids("i", [range], isReversed: true) == reversed.map { "\($0.id)" })
                for (isReversed, rows) in [(false, wanted), (true, reversed)] {
                    try expectEntries(
                        replica, IndexScan(index: index, ranges: [range], isReversed: isReversed), rows)
                }
            }
        }
    }

    private func expectEntries(
        _ replica: PeerReplica, _ scan: IndexScan, _ wanted: [(id: Int64, values: [Value?])]
    ) throws {
        var found: [IndexEntry] = []
        try replica.read { transaction in
            try transaction.entries(of: scan, [.id, .values]) { entry in
                found.append(entry)
                return true
            }
        }
        // By content and type: `1` is not `1.0`.
        #expect(found.map(\.values) == wanted.map(\.values))
        #expect(found.map(\.id?.value) == wanted.map { .int($0.id) })
    }

    @Test("an index changes neither which of equal rows counts nor which comes first")
    func sameRows() throws {
        let long = String(repeating: "x", count: 600)
        let documents = [
            "{'_id': 3, 'a': 5, 'n': 1, 'x': 1, 'y': 1}", "{'_id': 2, 'a': 3, 'n': 2, 'x': 1, 'y': 1}",
            "{'_id': 1, 'a': 1, 'n': 1, 'x': 1, 'y': 1}", "{'_id': 4, 'a': '\(long)', 'b': '\(long)z'}",
        ]
        let statements = [
            "SELECT DISTINCT n FROM c WHERE a > 0 ORDER BY a",
            "SELECT DISTINCT n FROM c WHERE a > 0 ORDER BY a DESC LIMIT 1",
            "SELECT _id FROM c WHERE (_id = 1 OR _id = 2) AND x = 1 AND y = 1 LIMIT 1",
            "SELECT _id FROM c WHERE _id IN (1, 3) AND x = 1",
            "SELECT _id FROM c WHERE a = '\(long)' AND b > '\(long)'",
            "SELECT _id FROM c WHERE a = '\(long)' AND b != '\(long)'",
            "SELECT _id FROM c WHERE a = '\(long)' AND b < '\(long)zz'",
        ]
        try withPeer { replica, _ in
            for document in documents { try replica.execute("INSERT INTO c DOCUMENTS (\(document))") }
            let wanted = try statements.map { try replica.rows($0) }
            #expect(wanted.allSatisfy { !$0.isEmpty })
            for keys in [["a"], ["-a"], ["x", "y"], ["a", "b"], ["-a", "-b"], ["a", "n"]] {
                try replica.change(.create(index("i", on: keys), ifNotExists: false))
                for (statement, rows) in zip(statements, wanted) {
                    #expect(try replica.rows(statement) == rows, "\(statement.prefix(70)) with \(keys)")
                }
                try replica.change(.drop(collection: "c", name: "i", ifExists: false))
            }
        }
    }

    @Test("rows that an order does not tell apart come as without an index, also from entries read backwards")
    func ties() throws {
        try withPeer { replica, _ in
            try replica.insert(0..<60) { $0 % 3 == 0 ? [:] : ["a": .int(Int64($0 % 5))] }
            let statements = ["ASC", "ASC NULLS LAST", "DESC", "DESC NULLS FIRST"].flatMap { order in
                ["_id", "_id, a", "*"].map { "SELECT \($0) FROM c ORDER BY a \(order)" }
            }
            let cut = statements.flatMap { [$0, "\($0) LIMIT 7 OFFSET 11"] }
            let wanted = try cut.map { try replica.rows($0) }
            for key in ["a", "-a"] {
                try replica.createIndex("i", on: key)
                for (statement, rows) in zip(cut, wanted) {
                    #expect(try replica.rows(statement) == rows, "\(statement) by an index on \(key)")
                }
                try replica.change(.drop(collection: "c", name: "i", ifExists: false))
            }
        }
    }

    private func value(_ last: Value??, _ random: inout SplitMix64) -> Value? {
        switch random.below(4) {
        case 0: last ?? nil
        case 1: RandomValues.near(last ?? nil, &random)
        default: RandomValues.next(&random)
        }
    }

    private func range(_ rows: [[Value?]], _ random: inout SplitMix64) -> IndexRange {
        let row = random.pick(rows)
        if random.chance(20) { return IndexRange(equal: row) }
        let cuts = [cut(random.pick(rows)[0], &random), cut(random.pick(rows)[0], &random)]
            .sorted { KeyPosition.compare($0, $1) < 0 }
        if random.chance(50) { return IndexRange(next: KeyRange(from: cuts[0], to: cuts[1])) }
        let second = [cut(random.pick(rows)[1], &random), cut(random.pick(rows)[1], &random)]
            .sorted { KeyPosition.compare($0, $1) < 0 }
        return IndexRange(equal: [row[0]], next: KeyRange(from: second[0], to: second[1]))
    }

    private func cut(_ value: Value?, _ random: inout SplitMix64) -> KeyPosition {
        switch (random.below(5), value) {
        case (0, .string(let text)?): .afterPrefix(String(text.unicodeScalars.prefix(1)))
        case (0, _): .beforeClass(ValueClass(of: value))
        case (1, _): .afterClass(ValueClass(of: value))
        case (2, _): .before(value)
        default: .after(value)
        }
    }

    @Test("an index with keys that were cut finds too much, never too little, and says so")
    func cut() throws {
        try withPeer { replica, _ in
            let long = String(repeating: "x", count: DQLLimits.indexPartBytes + 5)
            try replica.createIndex("i", on: "a")
            for (id, end) in ["a", "b", "c"].enumerated() {
                try replica.insert(id..<id + 1) { _ in ["a": .string(long + end)] }
            }
            try replica.insert(3..<4) { _ in ["a": "x"] }
            #expect(try replica.description(of: "i")?.isExact == false)
            let (b, c) = (Value.string(long + "b"), Value.string(long + "c"))
            for range in [
                IndexRange(equal: [b]), IndexRange(next: KeyRange(from: .before(b), to: .after(b))),
                IndexRange(next: KeyRange(from: .after(b), to: .before(c))),
                IndexRange(next: KeyRange(from: .beforeClass(.string), to: .afterPrefix(long + "b"))),
            ] {
                #expect(try Set(replica.ids("i", [range])).isSuperset(of: ["0", "1", "2"]), "\(range)")
            }
            #expect(try replica.ids("i", [IndexRange(equal: ["x"])]) == ["3"])
            for order in ["a", "a DESC"] {
                let rows = try replica.rows("SELECT _id FROM c WHERE a >= '\(long)b' ORDER BY \(order)")
                #expect(rows == (order == "a" ? [1, 2] : [2, 1]).map { "{\"_id\":\($0)}" })
            }
            #expect(try replica.indexFaults() == [])
        }
    }

    @Test("documents of 5 MiB, and fields as long, are indexed")
    func large() throws {
        try withPeer { replica, _ in
            try replica.createIndex("text", on: "t")
            try replica.createIndex("list", on: "l")
            let text = String(repeating: "é", count: 2_600_000)
            try replica.insert(0..<1) { _ in ["t": .string(text)] }
            try replica.insert(1..<2) { _ in ["l": .array((0..<500_000).map { .int(Int64($0)) })] }
            try replica.createIndex("both", on: "t", "l")
            #expect(try replica.indexFaults() == [])
            let found = try PreparedStatement("SELECT _id FROM c WHERE t = :t")
            #expect(
                try replica.read { try found.rows(in: $0, arguments: arguments(("t", .string(text)))) }.count
                    == 1)
            try replica.execute("DELETE FROM c WHERE t LIKE 'é%' OR l > [0, 1, 2]")
            #expect(try replica.ids("text", [IndexRange()]) == [])
            #expect(try replica.indexFaults() == [])
        }
    }

    @Test(
        "a collection with all the indexes it may have is written and read; one more is refused",
        .enabled(if: Depth.current == .deep, "a thousand indexes take half a minute"))
    func many() throws {
        try withPeer { replica, _ in
            for number in 0..<DQLLimits.indexesOfCollection {
                try replica.createIndex("i\(number)", on: number % 2 == 0 ? "a" : "b", "c\(number)")
            }
            let one = index("more", on: ["a"])
            #expect {
                try replica.change(.create(one, ifNotExists: true))
            } throws: {
                ($0 as? DQLError)?.code == .tooManyIndexes
            }
            try replica.insert(0..<3) { ["a": .int(Int64($0)), "c7": 1] }
            #expect(try replica.rows("SELECT _id FROM c WHERE a = 2") == ["{\"_id\":2}"])
            try replica.execute("DELETE FROM c WHERE a = 2")
            #expect(try replica.rows("SELECT _id FROM c WHERE a >= 1 ORDER BY a, c0") == ["{\"_id\":1}"])
            #expect(try replica.indexFaults() == [])
        }
    }

    @Test("scans within scans of the same index each see all")
    func nested() throws {
        try withPeer { replica, _ in
            try replica.insert(0..<20) { ["a": .int(Int64($0 % 4))] }
            try replica.createIndex("i", on: "a")
            try replica.read { transaction in
                let index = try transaction.catalog(of: "c").indexes[0]
                for isReversed in [false, true] {
                    var pairs = 0
                    let scan = IndexScan(
                        index: index, ranges: (0..<4).map { IndexRange(equal: [.int($0)]) },
                        isReversed: isReversed)
                    try transaction.documents(of: scan) { _ in
                        try transaction.documents(of: scan) { _ in
                            pairs += 1
                            return true
                        }
                        return true
                    }
                    #expect(pairs == 400)
                }
            }
        }
    }
}
