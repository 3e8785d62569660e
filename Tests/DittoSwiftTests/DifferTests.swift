import CRDT
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
}
