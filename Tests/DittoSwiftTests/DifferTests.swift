import CRDT
import DQL
import Foundation
import TestSupport
import Testing

@testable import DittoSwift

@Suite("The differ")
struct DifferTests {
    private func items(_ rows: [Value]) -> [DittoQueryResultItem] { rows.map { DittoQueryResultItem($0) } }
    private func documents(_ ids: [String], _ extra: Value = .null) -> [DittoQueryResultItem] {
        items(ids.map { ["_id": .string($0), "extra": extra] })
    }

    @Test("the first difference is insertions only")
    func first() {
        let diff = DittoDiffer().diff(documents(["a", "b"]))
        #expect(diff.insertions == [0, 1])
        #expect(diff.deletions.isEmpty && diff.updates.isEmpty && diff.moves.isEmpty)
    }

    @Test("deletions count in the old list, insertions and updates in the new one")
    func changes() {
        let differ = DittoDiffer()
        _ = differ.diff(items([["_id": "a"], ["_id": "b", "n": 1], ["_id": "c"]]))
        let diff = differ.diff(items([["_id": "b", "n": 2], ["_id": "c"], ["_id": "d"]]))
        #expect(diff.deletions == [0])
        #expect(diff.updates == [0])
        #expect(diff.insertions == [2])
        #expect(diff.moves.isEmpty)
    }

    @Test("the same items again are no difference")
    func same() {
        let differ = DittoDiffer()
        _ = differ.diff(documents(["a", "b"], 1))
        let diff = differ.diff(documents(["a", "b"], 1))
        #expect(
            diff.insertions.isEmpty && diff.deletions.isEmpty && diff.updates.isEmpty && diff.moves.isEmpty)
    }

    @Test("the fewest items move that explain the new order")
    func moves() {
        let differ = DittoDiffer()
        _ = differ.diff(documents(["a", "b", "c", "d"]))
        let diff = differ.diff(documents(["d", "a", "b", "c"]))
        #expect(diff.moves.map(\.from) == [3])
        #expect(diff.moves.map(\.to) == [0])
        #expect(diff.updates.isEmpty)
    }

    @Test("rows without an id are the same where everything in them is")
    func withoutID() {
        let differ = DittoDiffer()
        _ = differ.diff(items([["n": 1], ["n": 1], ["n": 2]]))
        let diff = differ.diff(items([["n": 1], ["n": 2], ["n": 3]]))
        #expect(diff.deletions == [1])
        #expect(diff.insertions == [2])
    }

    @Test("applied to the old list, a difference gives the new one")
    func applied() {
        let old = ["a", "b", "c", "d", "e", "f"]
        let new = ["x", "f", "c", "y", "a", "e"]
        let differ = DittoDiffer()
        _ = differ.diff(documents(old))
        let diff = differ.diff(documents(new))
        let moved = Set(diff.moves.map(\.from))
        var list = old.enumerated().filter {
            !diff.deletions.contains($0.offset) && !moved.contains($0.offset)
        }
        .map(\.element)
        let arriving = diff.insertions.map { ($0, new[$0]) } + diff.moves.map { ($0.to, old[$0.from]) }
        for (index, element) in arriving.sorted(by: { $0.0 < $1.0 }) { list.insert(element, at: index) }
        #expect(list == new)
    }

    @Test("a difference is read from JSON, and a move is a pair")
    func decoding() throws {
        let text = #"{"insertions":[0],"deletions":[1,2],"updates":[],"moves":[[3,4]]}"#
        let diff = try JSONDecoder().decode(DittoDiff.self, from: Data(text.utf8))
        #expect(diff.deletions == [1, 2])
        #expect(diff.moves.map(\.to) == [4])
        let same = try JSONDecoder().decode(DittoDiff.self, from: Data(text.utf8))
        #expect(diff == same)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(
                DittoDiff.self,
                from: Data(#"{"insertions":[],"deletions":[],"updates":[],"moves":[[3]]}"#.utf8))
        }
    }

    /// The same by looking at every pair: what is kept (rows of one identity in order), and that the moves
    /// are the fewest.
    @Test(
        "random lists: a difference leads from one to the other, with the fewest moves",
        arguments: Depth.seeds(fast: 300, deep: 3_000))
    func random(seed: UInt64) throws {
        var dice = SplitMix64(seed: seed)
        func list() -> [Value] {
            let ids = (0..<Int.random(in: 0...12, using: &dice)).map { _ in
                Int.random(in: 0..<14, using: &dice)
            }
            var seen: Set<Int> = []
            return ids.filter { seen.insert($0).inserted }.map { id in
                [
                    "_id": id % 3 == 0 ? .string("s\(id)") : .int(Int64(id)),
                    "v": .int(Int64.random(in: 0..<3, using: &dice)),
                ]
            }
        }
        let (old, new) = (list(), list())
        let diff = DittoDiff(from: old.map { KeptRow($0) }, to: new.map { KeptRow($0) })
        let places = Dictionary(
            uniqueKeysWithValues: old.enumerated().map { (JSONText.print($1["_id"] ?? .null), $0) })
        var kept: [(from: Int, to: Int)] = []
        var insertions = IndexSet()
        var updates = IndexSet()
        for (to, row) in new.enumerated() {
            guard let from = places[JSONText.print(row["_id"] ?? .null)] else {
                insertions.insert(to)
                continue
            }
            kept.append((from, to))
            if old[from] != row { updates.insert(to) }
        }
        #expect(diff.insertions == insertions)
        #expect(diff.updates == updates)
        #expect(diff.deletions == IndexSet(old.indices.filter { from in !kept.contains { $0.from == from } }))
        // Those that stay are in order, and no more could stay.
        let staying = kept.filter { pair in !diff.moves.contains { $0 == pair } }
        #expect(staying.map(\.from) == staying.map(\.from).sorted())
        #expect(staying.count + diff.moves.count == kept.count)
        var longest = [Int](repeating: 1, count: kept.count)
        for later in kept.indices {
            for earlier in 0..<later where kept[earlier].from < kept[later].from {
                longest[later] = max(longest[later], longest[earlier] + 1)
            }
        }
        #expect(staying.count == (longest.max() ?? 0))
    }

    /// Documents are compared by their bytes, values by what they say: that must not make a difference.
    @Test(
        "documents as they are stored differ as their values do, also where a value was written again",
        arguments: Depth.seeds(fast: 12, deep: 120))
    func stored(seed: UInt64) async throws {
        var dice = SplitMix64(seed: seed)
        try await withDitto { ditto in
            var before: [DittoQueryResultItem] = []
            for _ in 0..<15 {
                let id = Int.random(in: 0..<8, using: &dice)
                let changes = [
                    "INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': 1}) ON ID CONFLICT DO NOTHING",
                    "UPDATE c SET n = \(id % 2) WHERE _id <= \(id)", "DELETE FROM c WHERE _id = \(id)",
                    "UPDATE c SET n = n WHERE _id >= \(id)",
                ]
                try await ditto.store.execute(query: changes.randomElement(using: &dice) ?? "")
                let order = Bool.random(using: &dice) ? "_id" : "n, _id DESC"
                let after = try await ditto.store.execute(query: "SELECT * FROM c ORDER BY \(order)").items
                let stored = DittoDiff(from: before.map(\.kept), to: after.map(\.kept))
                let values = [before, after].map { items in items.map { KeptRow($0.row) } }
                #expect(stored == DittoDiff(from: values[0], to: values[1]), "seed \(seed)")
                #expect(stored == DittoDiff(from: before.map(\.kept), to: values[1]), "seed \(seed)")
                before = after
            }
            // Nothing was said anew, although every byte may be new.
            try await ditto.store.execute(query: "INSERT INTO d DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2})")
            let first = try await ditto.store.execute(query: "SELECT * FROM d ORDER BY _id").items
            try await ditto.store.execute(query: "UPDATE d SET n = 1 WHERE _id = 1")
            let second = try await ditto.store.execute(query: "SELECT * FROM d ORDER BY _id").items
            #expect(DittoDiff(from: first.map(\.kept), to: second.map(\.kept)).updates.isEmpty)
        }
    }

    @Test("many equal rows without an id are paired, and cost no more than others")
    func equalRows() {
        let differ = DittoDiffer()
        let rows = [Value](repeating: ["n": 1], count: 20_000)
        _ = differ.diff(items([["n": 2]] + rows))
        let diff = differ.diff(items(rows + [["n": 3]]))
        #expect(diff.deletions == [0])
        #expect(diff.insertions == [20_000])
        #expect(diff.moves.isEmpty)
    }
}
