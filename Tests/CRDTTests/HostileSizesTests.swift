import Testing

@testable import CRDT

/// States and deltas that are legal and large in what honest ones have little of. Work that grows with the
/// square would take minutes here.
@Suite("Hostile sizes")
struct HostileSizesTests {
    private static let many: UInt64 = 30_000

    private func document(_ root: MapNode, and others: UInt64...) -> Document {
        let actors = others.map { VersionVector.Entry(actor: ActorID($0), time: 1) }
        return Document(
            vector: VersionVector(actors + [.init(actor: ActorID(1), time: Self.many)]), root: root)
    }

    private var stamps: [Stamp] { (1...Self.many).map { Stamp(time: $0, actor: ActorID(1)) } }

    @Test("as many concurrent values as fit merge in time", .timeLimit(.minutes(1)))
    func values() {
        var slot = Slot()
        slot.register = Leaves(ascending: stamps.map { Leaves.Leaf(stamp: $0, value: .null) })
        let node = MapNode(fields: [MapNode.Field(key: "a", slot: slot)])
        #expect(document(node, and: 2).merged(document(node, and: 3)) == document(node, and: 2, 3))
    }

    @Test("as many creations of one map as fit merge in time", .timeLimit(.minutes(1)))
    func presence() {
        let node = MapNode(presence: stamps)
        let fewer = MapNode(presence: Array(stamps.dropFirst()))
        let merged = document(node, and: 2).merged(document(fewer, and: 3))
        #expect(merged == document(fewer, and: 2, 3))
    }

    @Test("vectors of as many actors as fit are joined in time", .timeLimit(.minutes(1)))
    func actors() {
        let even = (0..<Self.many * 2).map { VersionVector.Entry(actor: ActorID(2 * $0), time: 1) }
        let odd = (0..<Self.many * 2).map { VersionVector.Entry(actor: ActorID(2 * $0 + 1), time: 1) }
        let joined = VersionVector(ascending: even).union(VersionVector(ascending: odd))
        #expect(joined.entries.count == even.count + odd.count)
        #expect(zip(joined.entries, joined.entries.dropFirst()).allSatisfy { $0.actor < $1.actor })
    }
}
