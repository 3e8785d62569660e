import TestSupport
import Testing

@testable import CRDT

/// States and deltas that are well-formed and lie: about totals, times and bases.
@Suite("Hostile states")
struct HostileStatesTests {
    /// A counter that no honest history has: few actors and times, so that liars meet.
    private func counter(_ random: inout SplitMix64) -> CounterNode {
        var node = CounterNode()
        for actor in 1...3 where random.chance(70) {
            let point = point(&random)
            var entry = CounterNode.Entry(actor: ActorID(UInt64(actor)), point: point)
            let baseline = self.point(&random)
            if random.chance(60) { entry.baseline = baseline.isBefore(point) ? baseline : point }
            if let seen = entry.baseline, seen.time < point.time, random.chance(40) {
                entry.point.since = seen.time
            }
            node.entries.append(entry)
        }
        if random.chance(50) {
            node.restarts = Leaves(
                Leaves.Leaf(
                    stamp: Stamp(time: UInt64(random.below(3)), actor: ActorID(1)),
                    value: .int(Int64(random.below(3)))))
        }
        return node
    }

    private func point(_ random: inout SplitMix64) -> CounterNode.Point {
        CounterNode.Point(
            time: UInt64(random.below(3)),
            total: random.pick([1, 2, .int(.min), 1.0, -0.0, 0.0, .double(-.greatestFiniteMagnitude)]))
    }

    private func document(_ random: inout SplitMix64) -> Document {
        var slot = Slot()
        slot.counter = counter(&random)
        if slot.counter?.isEmpty == true { slot.counter = nil }
        let vector = VersionVector((1...3).map { .init(actor: ActorID($0), time: 2) })
        let fields = slot.isEmpty ? [] : [MapNode.Field(key: "c", slot: slot)]
        return Document(vector: vector, root: MapNode(fields: fields))
    }

    @Test(
        "counters of liars merge to one state in any order, and survive their encoding",
        arguments: Depth.cases(fast: 20, deep: 200))
    func lattice(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<100 {
            let (a, b, c) = (document(&random), document(&random), document(&random))
            #expect(a.merged(b) == b.merged(a), "seed \(seed)")
            #expect(a.merged(b).merged(c) == a.merged(b.merged(c)), "seed \(seed)")
            #expect(a.merged(a) == a && a.merged(b).merged(b) == a.merged(b), "seed \(seed)")
            let all = a.merged(b).merged(c)
            #expect(try Document(decoding: all.encoded()) == all, "seed \(seed)")
        }
    }

    @Test("one stamp with two contents ends in one of them, the same everywhere")
    func twoContents() throws {
        let one = try edited(at: 1, by: 1) { try $0.set(["a"], 1) }
        let two = try edited(at: 1, by: 1) { try $0.set(["a"], "x") }
        #expect(one.merged(two) == two.merged(one))
        let third = try edited(at: 1, by: 2) { try $0.set(["a"], 3) }
        #expect(one.merged(third).merged(two.merged(third)) == two.merged(third).merged(one.merged(third)))
        #expect(try Document(decoding: one.merged(two).encoded()) == one.merged(two))
    }

    @Test("a baseline of what is not here, or is older here, says nothing")
    func baselines() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let seen = CounterEdit.Baseline(actor: ActorID(1), point: .init(time: 12, total: 50))
        let missing = CounterEdit.Baseline(actor: ActorID(3), point: .init(time: 1, total: 9))
        var slot = SlotEdit()
        slot.counter = CounterEdit(baselines: [seen, missing])
        let edit = MapEdit(fields: [MapEdit.FieldEdit(key: "c", slot: slot)])
        let base = VersionVector([.init(actor: ActorID(1), time: 12), .init(actor: ActorID(3), time: 1)])
        let lie = Delta(stamp: Stamp(time: 20, actor: ActorID(2)), base: base, root: edit)
        var document = Document(vector: base, root: start.root)
        #expect(document.apply(lie) == .applied)
        #expect(document.root == start.root)
        #expect(try Document(decoding: document.encoded()) == document)
    }

    @Test("a baseline of the entry's time and another total takes the entry as it is here")
    func otherTotal() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        var slot = SlotEdit()
        slot.counter = CounterEdit(
            baselines: [.init(actor: ActorID(1), point: .init(time: 10, total: 99))])
        let edit = MapEdit(fields: [MapEdit.FieldEdit(key: "c", slot: slot)])
        let lie = Delta(stamp: Stamp(time: 20, actor: ActorID(2)), base: start.vector, root: edit)
        #expect(start.applied(lie).root["c"]?.counter?.entries.map(\.baseline?.total) == [5])
    }

    @Test(
        "a baseline with a total that never was parts those who hear of it in another order, until they meet")
    func inventedTotal() throws {
        let one = try delta(on: Document(), at: 5, by: 1) { try $0.increment(["c"], by: 5) }
        let start = Document().applied(one)
        let two = try delta(on: start, at: 6, by: 1) { try $0.increment(["c"], by: 2) }
        var slot = SlotEdit()
        slot.counter = CounterEdit(
            baselines: [.init(actor: ActorID(1), point: .init(time: 5, total: 100))])
        let edit = MapEdit(fields: [MapEdit.FieldEdit(key: "c", slot: slot)])
        let lie = Delta(stamp: Stamp(time: 20, actor: ActorID(2)), base: start.vector, root: edit)
        let (left, right) = (start.applied(lie).applied(two), start.applied(two).applied(lie))
        #expect(Value.object(left.value) == ["c": 2] && Value.object(right.value) == ["c": -93])
        #expect(left.merged(right) == right && right.merged(left) == right)
    }

    @Test(
        "deltas of strangers never trap, and what they leave is a state",
        arguments: Depth.cases(fast: 20, deep: 200))
    func strangers(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        var document = Document()
        for round in 1...60 {
            // Written on a document of its own, applied to another one under a base that is claimed.
            var foreign = Document()
            for time in 1...random.pick([1, 2, 4]) {
                let stamp = Stamp(time: UInt64(time), actor: ActorID(UInt64(random.below(3)) + 1))
                var editor = DocumentEditor(
                    document: foreign, pending: .init(base: VersionVector()), stamp: stamp)
                for step in random.kindSteps() { try step.perform(on: &editor) }
                foreign = editor.document
            }
            let stamp = Stamp(time: UInt64(round + 10), actor: ActorID(UInt64(random.below(3)) + 1))
            var editor = DocumentEditor(document: foreign, stamp: stamp)
            for step in random.kindSteps() { try step.perform(on: &editor) }
            guard let delta = editor.pending.delta(stamp: stamp) else { continue }
            let before = document
            if document.apply(try Delta(decoding: delta.encoded(), stamp: stamp)) != .applied {
                document.merge(foreign)
            }
            #expect(try Document(decoding: document.encoded()) == document, "seed \(seed)")
            #expect(document.merged(before) == before.merged(document), "seed \(seed)")
        }
    }
}
