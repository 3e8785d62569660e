import TestSupport
import Testing

@testable import CRDT

/// Trees and edits that are well-formed and that no editor makes: any kinds, stamps and totals under few
/// keys, so that they meet.
@Suite("Hostile trees")
struct HostileTreesTests {
    @Test(
        "what is read in place is what the decoded state says, ties and residue included",
        arguments: Depth.cases(fast: 20, deep: 200))
    func reading(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<30 {
            let document = random.hostileDocument()
            let bytes = document.encoded()
            #expect(try Document(decoding: bytes) == document, "seed \(seed)")
            try ReaderCheck.check(bytes.bytes, document)
            let inPlace = try bytes.withUnsafeBytes { try DocumentReader($0).root.value() }
            #expect(Value.object(inPlace) == .object(document.value), "seed \(seed)")
        }
    }

    @Test(
        "states of one vector merge alike in any order; of other vectors into a state",
        arguments: Depth.cases(fast: 20, deep: 200))
    func merging(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed) + 100)
        for _ in 0..<20 {
            let (a, b, c) = (random.hostileDocument(), random.hostileDocument(), random.hostileDocument())
            #expect(a.merged(b) == b.merged(a), "seed \(seed)")
            #expect(a.merged(b).merged(c) == a.merged(b.merged(c)), "seed \(seed)")
            #expect(a.merged(b).merged(b) == a.merged(b) && a.merged(a) == a, "seed \(seed)")
            let other = Document(vector: random.wideVector(), root: b.root)
            for state in [a.merged(other), other.merged(a)] {
                #expect(try Document(decoding: state.encoded()) == state, "seed \(seed)")
            }
        }
    }

    @Test(
        "any edit under any base takes what the base covers and adds its own, no more",
        arguments: Depth.cases(fast: 20, deep: 200))
    func applying(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed) + 200)
        for _ in 0..<30 {
            let document = random.hostileDocument()
            let base = VersionVector(
                document.vector.entries.filter { _ in random.chance(50) }.map {
                    .init(actor: $0.actor, time: UInt64(random.below(Int($0.time) + 1)))
                })
            let stamp = Stamp(time: 20, actor: ActorID(UInt64(random.below(5)) + 1))
            let edit = random.hostileEdit(base, depth: 0)
            let delta = Delta(stamp: stamp, base: base, root: edit)
            #expect(try Delta(decoding: delta.encoded(), stamp: stamp) == delta, "seed \(seed)")
            let after = document.applied(delta)
            #expect(try Document(decoding: after.encoded()) == after, "seed \(seed)")
            try ReaderCheck.check(after.encoded().bytes, after)
            let lost = document.facts.subtracting(after.facts)
            #expect(lost.allSatisfy { base.covers($0.stamp) }, "seed \(seed): \(delta)")
            #expect(after.facts.subtracting(document.facts).allSatisfy { $0.stamp == stamp })
            for (path, actor, entry) in document.entries {
                let now = after.root[path[...]]?.counter?[actor]
                // Where a sum began is forgotten once a baseline lies within it.
                let isKept = now?.point.time == entry.point.time && now?.point.total == entry.point.total
                #expect(isKept || actor == stamp.actor, "seed \(seed)")
                #expect(
                    now?.baseline == entry.baseline
                        || now?.baseline.map { base.covers(Stamp(time: $0.time, actor: actor)) } == true,
                    "seed \(seed)")
            }
        }
    }
}

extension Document {
    fileprivate var entries: [([String], ActorID, CounterNode.Entry)] {
        func entries(_ node: MapNode, _ path: [String]) -> [([String], ActorID, CounterNode.Entry)] {
            node.fields.flatMap { field in
                let below = path + [field.key]
                let here = field.slot.counter?.entries.map { (below, $0.actor, $0) } ?? []
                return here + (field.slot.map.map { entries($0, below) } ?? [])
            }
        }
        return entries(root, [])
    }
}

extension SplitMix64 {
    mutating func wideVector() -> VersionVector {
        VersionVector((1...4).map { .init(actor: ActorID($0), time: 4 + UInt64(below(6))) })
    }

    mutating func hostileDocument() -> Document {
        let vector = VersionVector((1...4).map { .init(actor: ActorID($0), time: 4) })
        return Document(vector: vector, root: hostileNode(depth: 0))
    }

    private mutating func stamp() -> Stamp {
        Stamp(time: UInt64(below(4)), actor: ActorID(UInt64(below(4)) + 1))
    }

    private mutating func stamps(_ percent: Int) -> [Stamp] {
        guard chance(percent) else { return [] }
        return Set((0...below(3)).map { _ in stamp() }).sorted()
    }

    private mutating func hostileNode(depth: Int) -> MapNode {
        var node = MapNode()
        node.presence = stamps(40)
        for key in ["", "a", "b", "e\u{301}", "é"] where chance(50) {
            let slot = hostileSlot(depth: depth)
            if !slot.isEmpty { node.fields.append(.init(key: key, slot: slot)) }
        }
        node.fields.sort { utf8Precedes($0.key, $1.key) }
        return node
    }

    private mutating func hostileSlot(depth: Int) -> Slot {
        var slot = Slot()
        slot.register = leaves(50) { .int(Int64($0.below(200))) }
        slot.attachment = leaves(30) { ["id": .string("x\($0.below(3))"), "len": 1, "metadata": [:]] }
        if depth < 3, chance(50) {
            let map = hostileNode(depth: depth + 1)
            slot.map = map.isEmpty ? nil : map
        }
        if chance(50) {
            let counter = hostileCounter()
            slot.counter = counter.isEmpty ? nil : counter
        }
        return slot
    }

    private mutating func leaves(_ percent: Int, _ value: (inout SplitMix64) -> Value) -> Leaves {
        Leaves(ascending: stamps(percent).map { Leaves.Leaf(stamp: $0, value: value(&self)) })
    }

    private mutating func hostileNumber() -> Value {
        pick([0, 1, -1, .int(.max), .int(.min), 0.5, -0.0, 0.0, .double(.greatestFiniteMagnitude)])
    }

    private mutating func hostileCounter() -> CounterNode {
        var node = CounterNode()
        node.restarts = leaves(40) { $0.hostileNumber() }
        for actor in 1...4 where chance(50) {
            let point = CounterNode.Point(time: UInt64(below(4)), total: hostileNumber())
            var entry = CounterNode.Entry(actor: ActorID(UInt64(actor)), point: point)
            let seen = CounterNode.Point(time: UInt64(below(4)), total: hostileNumber())
            if chance(60) { entry.baseline = seen.isBefore(point) ? seen : point }
            if let seen = entry.baseline, seen.time < point.time, chance(40) { entry.point.since = seen.time }
            node.entries.append(entry)
        }
        return node
    }

    mutating func hostileEdit(_ base: VersionVector, depth: Int) -> MapEdit {
        var edit = MapEdit(clears: chance(30), writesPresence: chance(30))
        for key in ["", "a", "b", "e\u{301}", "é"] where chance(40) {
            edit.withSlot(key) { slot in
                slot.clearsRegister = chance(30)
                if chance(30) { slot.register = 7 }
                if depth < 3, chance(40) { slot.map = hostileEdit(base, depth: depth + 1) }
                slot.clearsAttachment = chance(30)
                if chance(20) { slot.attachment = ["id": "n", "len": 2, "metadata": [:]] }
                if chance(60) { slot.counter = hostileCounterEdit(base) }
            }
        }
        edit.fields.removeAll { $0.slot.isEmpty }
        return edit
    }

    private mutating func hostileCounterEdit(_ base: VersionVector) -> CounterEdit? {
        var edit = CounterEdit(clearsRestarts: chance(30))
        edit.baselines = base.entries.filter { _ in chance(60) }.map {
            .init(
                actor: $0.actor,
                point: .init(time: UInt64(below(Int($0.time) + 1)), total: hostileNumber()))
        }
        if chance(30) { edit.restart = hostileNumber() }
        if chance(50) { edit.amount = hostileNumber() }
        edit.beginsSum = edit.amount != nil && chance(40)
        return edit.isEmpty ? nil : edit
    }
}
