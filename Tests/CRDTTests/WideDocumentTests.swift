import TestSupport
import Testing

@testable import CRDT

@Suite("Wide documents")
struct WideDocumentTests {
    @Test(
        "a delta of many fields does in one walk what its statements did one by one",
        arguments: Depth.cases(fast: 20, deep: 200))
    func manyFields(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        var document = Document()
        for round in 1...6 {
            let steps = (0..<random.pick([10, 30, 60])).map { _ in
                (key: "k\(random.below(80))", removes: random.chance(30), value: Int64(random.below(9)))
            }
            document = try edited(document, at: Timestamp(round), by: UInt64(random.below(3)) + 1) { editor in
                for step in steps {
                    try step.removes
                        ? editor.unset([step.key]) : editor.set([step.key], .int(step.value))
                }
            }
            let keys = document.root.fields.map(\.key)
            #expect(zip(keys, keys.dropFirst()).allSatisfy { utf8Precedes($0, $1) }, "seed \(seed)")
        }
    }
}
