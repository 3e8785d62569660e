import TestSupport

@testable import CRDT

// What is asked of every state: of each new one everything, of a vector that was seen before the same state.

extension World {
    mutating func check(_ document: Document) throws {
        if let known = stateByVector[document.vector] {
            return try require(
                sabotage == nil ? known == document : known.value == document.value,
                "equal vectors, different states")
        }
        stateByVector[document.vector] = document
        let view = OracleView(oracle, document.vector)
        try require(document.isLive == !view.surviving.isEmpty, "live is not what survives")
        try require(
            .object(document.value) == .object(view.value),
            "the oracle reads \(view.value), not \(document.value)")
        // A replica that breaks a rule is judged by what a reader can see.
        guard sabotage == nil else { return }
        try StructureCheck(view).check(document)
        // Every other state is also written and read, which takes as long as all the rest.
        guard stateByVector.count.isMultiple(of: 2) else { return }
        let bytes = document.encoded()
        try require(try Document(decoding: bytes) == document, "a state does not survive its encoding")
        try ReaderCheck.check(bytes.bytes, document)
    }

    /// Full states commute, associate and are idempotent, whatever was drawn; all replicas converge; deltas
    /// alone, in any order that their bases allow, give what the states give.
    mutating func checkLaws(_ generator: SplitMix64) throws {
        var random = generator
        for _ in 0..<2 {
            let (a, b, c) = (random.pick(states), random.pick(states), random.pick(states))
            let ab = joined(a, b)
            let abc = joined(ab, c)
            try check(abc)
            guard sabotage == nil else { continue }
            try require(ab == joined(b, a), "merging does not commute")
            try require(abc == joined(a, joined(b, c)), "merging does not associate")
            try require(joined(a, a) == a && joined(ab, b) == ab, "merging is not idempotent")
        }
        try check(documents.reduce(Document(), joined))
        try check(documents.reversed().reduce(Document(), joined))
        guard sabotage == nil else { return }
        let everything = sent.map(\.after).reduce(Document(), joined)
        try check(everything)
        try require(fold(&random) == everything, "deltas alone give another state than states")
        for document in documents where !document.isLive {
            let seeds = document.vector.entries.filter { $0.time == 0 }
            try require(
                document.reaped() == (seeds.isEmpty ? nil : Document(seeds)), "reaping leaves something else")
        }
        try checkDeletedAnew(&random)
        try checkMove(&random)
    }

    /// All deltas applied to an empty document, in a random order, each again and again until its base is
    /// there.
    private func fold(_ random: inout SplitMix64) throws -> Document {
        var waiting = sent.map(\.delta)
        for place in waiting.indices.dropFirst() { waiting.swapAt(place, random.below(place + 1)) }
        var document = Document()
        while !waiting.isEmpty {
            let left = waiting.filter { document.apply($0) == .baseMissing }
            try require(left.count < waiting.count, "deltas wait for a base that nobody wrote")
            waiting = left
        }
        return document
    }
}

extension Document {
    /// Nothing but a vector of these entries.
    fileprivate init(_ entries: [VersionVector.Entry]) {
        self.init(vector: VersionVector(entries), root: MapNode())
    }
}

/// Holds a document's tree against what survives: the same leaves, and of counters the same parts.
struct StructureCheck {
    private struct Key: Hashable {
        let path: Path
        let sort: Oracle.Sort
        let stamp: Stamp
    }

    private let view: OracleView
    private let contents: [Key: Value]
    private var leaves = 0
    private var counters = Set<Path>()

    init(_ view: OracleView) {
        self.view = view
        contents = Dictionary(
            view.surviving.filter { $0.sort != .increment }.map {
                (Key(path: $0.path, sort: $0.sort, stamp: $0.stamp), $0.content)
            }, uniquingKeysWith: { first, _ in first })
    }

    func check(_ document: Document) throws {
        var walk = self
        try walk.visit(document.root, .root)
        try require(walk.leaves == contents.count, "the oracle keeps \(contents), not \(document.root)")
        try require(walk.counters == view.counterPaths, "the oracle has counters at \(view.counterPaths)")
    }

    private mutating func visit(_ node: MapNode, _ path: Path) throws {
        for stamp in node.presence { try leaf(path, .presence, stamp, .null) }
        for field in node.fields {
            let below = path.appending(field.key)
            for leaf in field.slot.register { try self.leaf(below, .register, leaf.stamp, leaf.value) }
            for leaf in field.slot.attachment { try self.leaf(below, .attachment, leaf.stamp, leaf.value) }
            if let counter = field.slot.counter { try visit(counter, below) }
            if let map = field.slot.map { try visit(map, below) }
            try require(
                field.slot.newestKind == view.newestKind(at: below), "another newest kind at \(below)")
            let sort: Oracle.Sort = view.showsAttachment(at: below) ? .attachment : .register
            try require(
                field.slot.conflicts == view.leaves(sort, at: below).map(\.content),
                "other conflicts at \(below)")
        }
    }

    private mutating func visit(_ counter: CounterNode, _ path: Path) throws {
        for leaf in counter.restarts { try self.leaf(path, .restart, leaf.stamp, leaf.value) }
        let parts = counter.entries.map { entry in
            CounterPart(
                actor: entry.actor, time: entry.point.time, total: entry.point.total,
                baseline: entry.baseline.map { .init(time: $0.time, total: $0.total) },
                isNewSum: entry.point.since != nil)
        }
        try require(
            parts == view.parts(at: path),
            "the oracle counts \(view.parts(at: path)) at \(path), not \(parts)")
        if !parts.isEmpty { counters.insert(path) }
    }

    private mutating func leaf(_ path: Path, _ sort: Oracle.Sort, _ stamp: Stamp, _ content: Value) throws {
        leaves += 1
        try require(
            contents[Key(path: path, sort: sort, stamp: stamp)] == content,
            "the oracle has no \(sort) at \(path) of \(stamp) with \(content)")
    }
}
