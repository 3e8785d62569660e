import CRDT
import Testing

@testable import AttachmentStore

@Suite("The order of mentions")
struct MentionOrderTests {
    private static func key(_ collection: String, _ id: Value) throws -> DocumentKey {
        DocumentKey(collection: CollectionName(collection), id: try DocumentID(id))
    }

    private static func mentions(_ ids: [String]) -> [BlobReferences.Mention] {
        ids.map { BlobReferences.Mention(id: $0, length: 1, file: FileDescription()) }
    }

    @Test("kept up document by document it is the one that is sorted at once, also for names with line feeds")
    func incremental() throws {
        // The second collection's documents begin like the mentions of the first one's document "x".
        let keys = [
            try Self.key("a", "x"), try Self.key("a\n\"x\"", 5), try Self.key("a", "xy"),
            try Self.key("b", 1),
            try Self.key("", "x"), try Self.key("a", [1, "x"]),
        ]
        var generator = SplitMix(seed: 4711)
        var held: [DocumentKey: [BlobReferences.Mention]] = [:]
        var order = MentionOrder(held)
        for _ in 0..<500 {
            let key = keys[Int(generator.next() % UInt64(keys.count))]
            order.remove(key)
            held[key] = nil
            let ids = Set((0..<(generator.next() % 4)).map { _ in "id\(generator.next() % 6)" })
            if !ids.isEmpty {
                held[key] = Self.mentions(Array(ids))
                order.add(key, held[key] ?? [])
            }
            #expect(order.entries.map(\.place) == MentionOrder(held).entries.map(\.place))
            #expect(order.entries.allSatisfy { held[$0.key]?.indices.contains($0.index) == true })
        }
        for (index, entry) in order.entries.enumerated() {
            #expect(order.first(from: entry.place) == index && order.first(after: entry.place) == index + 1)
        }
        #expect(order.first(after: "") == 0 && order.first(from: "\u{10FFFF}") == order.entries.count)
    }
}

/// A generator that repeats its numbers.
private struct SplitMix {
    var seed: UInt64

    mutating func next() -> UInt64 {
        seed &+= 0x9E37_79B9_7F4A_7C15
        let mixed = (seed ^ (seed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        return mixed ^ (mixed >> 27)
    }
}
