import TestSupport

@testable import CRDT

/// A law that does not hold, in words.
struct Broken: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A rule that a history's replicas break on purpose, to show that the laws would notice.
enum Sabotage: CaseIterable, Sendable {
    /// Rule 2: only the greatest of several concurrent values is kept.
    case dropsLosers
    /// Rule 3: a delta applies without its base.
    case ignoresBase
    /// Rules 1 and 4: a removal takes with it what only the receiver has seen.
    case widensRemovals
    /// Rule 5 of the invariants, 10 of the rules: a store goes on with its actor after an eviction.
    case keepsActor
}

/// The replicas of one history, everything they ever wrote, and the oracle beside them.
struct World {
    private struct Replica {
        var actor: ActorID
        var clock = HybridClock()
        var document = Document()
    }

    /// A delta as it travels, and its author's state after it.
    private struct Sent {
        let stamp: Stamp
        let bytes: [UInt8]
        let after: Document
        let author: Int
    }

    private let sabotage: Sabotage?
    private var replicas: [Replica]
    private var actors: Int
    private var sent: [Sent] = []
    private var oracle = Oracle()
    /// Every state seen, by vector.
    private var bytesByVector: [VersionVector: [UInt8]] = [:]
    private var states: [Document] = [Document()]

    init(replicas count: Int, sabotage: Sabotage? = nil) {
        self.sabotage = sabotage
        replicas = (0..<count).map { Replica(actor: World.actor($0)) }
        actors = count
    }

    /// Scattered over the 64 bits, so that the order of actors is not the order of their creation.
    private static func actor(_ number: Int) -> ActorID {
        ActorID((UInt64(number) + 1) &* 0x9E37_79B9_7F4A_7C15)
    }

    mutating func perform(_ step: Step) throws {
        switch step {
        case .write(let replica, let wall, let edits): try write(replica, wall, edits)
        case .deliver(let delta, let replica, let late):
            guard !sent.isEmpty else { return }
            try deliver(sent[delta % sent.count], to: replica, late: late)
        case .merge(let from, let into): try merge(replicas[from].document, into: into)
        case .mergeOld(let delta, let into):
            guard !sent.isEmpty else { return }
            try merge(sent[delta % sent.count].after, into: into)
        case .evict(let replica):
            guard actors < History.actorLimit else { return }
            replicas[replica].document = Document()
            guard sabotage != .keepsActor else { return }
            replicas[replica].actor = World.actor(actors)
            actors += 1
        }
    }

    private mutating func write(_ index: Int, _ wall: UInt64, _ edits: [Edit]) throws {
        let before = replicas[index].document
        if let greatest = before.vector.greatestTime { replicas[index].clock.observe(greatest) }
        let stamp = Stamp(
            time: replicas[index].clock.next(wallMilliseconds: wall), actor: replicas[index].actor)
        // Each statement gets an editor of its own, as a session hands the pending edits on.
        var document = before
        var pending: DocumentEditor.Pending?
        for edit in edits {
            var editor = DocumentEditor(document: document, pending: pending, stamp: stamp)
            try edit.perform(on: &editor)
            document = editor.document
            pending = editor.pending
        }
        guard let delta = pending?.delta(stamp: stamp) else {
            return try require(document == before, "a transaction without edits changed the document")
        }
        let bytes = delta.encoded()
        let decoded = try Delta(decoding: bytes, stamp: stamp)
        try require(decoded == delta && decoded.encoded() == bytes, "a delta does not survive its encoding")
        var applied = before
        try require(applied.apply(decoded) == .applied, "the author's own delta does not apply")
        try require(applied == document, "the composed delta is not what the editor did")
        oracle.record(decoded)
        sent.append(Sent(stamp: stamp, bytes: bytes, after: document, author: index))
        try settle(index, document)
    }

    private mutating func deliver(_ message: Sent, to index: Int, late: Bool) throws {
        let delta = try Delta(decoding: message.bytes, stamp: message.stamp)
        let before = replicas[index].document
        if let wronged = sabotaged(before, delta) { return try settle(index, wronged) }
        var after = before
        var joined = before
        joined.merge(message.after)
        switch after.apply(delta) {
        case .applied:
            try require(before.vector.covers(delta.base), "a delta applied without its base")
            try require(after == joined, "a delta gives another state than the full state")
        case .duplicate:
            try require(before.vector.covers(delta.stamp), "a new delta counts as a duplicate")
            try require(after == before, "a duplicate changed the document")
        case .baseMissing:
            try require(!before.vector.covers(delta.base), "a delta with its base was refused")
            try require(after == before, "a refused delta changed the document")
            let current = replicas[message.author].document
            after.merge(late && current.vector.covers(message.stamp) ? current : message.after)
        }
        try settle(index, after)
    }

    private mutating func merge(_ other: Document, into index: Int) throws {
        var merged = replicas[index].document
        merged.merge(try Document(decoding: other.encoded()))
        try settle(index, merged)
    }

    /// What a replica that breaks its rule makes of a new delta; nil when it does nothing wrong here.
    private func sabotaged(_ before: Document, _ delta: Delta) -> Document? {
        let breaksNow =
            sabotage == .ignoresBase || (sabotage == .widensRemovals && before.vector.covers(delta.base))
        guard breaksNow, !before.vector.covers(delta.stamp) else { return nil }
        var after = before
        let context = sabotage == .widensRemovals ? before.vector : delta.base
        after.root.apply(delta.root, observed: Observed(base: context, own: nil), stamp: delta.stamp)
        after.vector.insert(delta.stamp)
        return after
    }

    /// A replica's new state, held against the oracle and against every state seen before.
    private mutating func settle(_ index: Int, _ state: Document) throws {
        var document = state
        if sabotage == .dropsLosers { document.root.dropLosers() }
        try check(document)
        replicas[index].document = document
        states.append(document)
    }

    private mutating func check(_ document: Document) throws {
        try require(
            document.facts == oracle.facts(under: document.vector),
            "the oracle keeps other writes: \(oracle.facts(under: document.vector)), not \(document.facts)")
        try require(
            .object(document.value) == oracle.value(under: document.vector), "the oracle reads another value")
        let bytes = document.encoded()
        try require(
            bytesByVector.updateValue(bytes, forKey: document.vector) ?? bytes == bytes,
            "equal vectors, different bytes")
        let decoded = try Document(decoding: bytes)
        try require(
            decoded == document && decoded.encoded() == bytes, "a state does not survive its encoding")
    }

    /// Full states commute, associate and are idempotent, whatever was drawn; all replicas converge.
    mutating func checkLaws(_ generator: SplitMix64) throws {
        var random = generator
        for _ in 0..<6 {
            let (a, b, c) = (random.pick(states), random.pick(states), random.pick(states))
            try require(joined(a, b) == joined(b, a), "merging does not commute")
            try require(joined(joined(a, b), c) == joined(a, joined(b, c)), "merging does not associate")
            try require(
                joined(a, a) == a && joined(joined(a, b), b) == joined(a, b), "merging is not idempotent")
            try check(joined(joined(a, b), c))
        }
        let forward = replicas.reduce(Document()) { joined($0, $1.document) }
        let backward = replicas.reversed().reduce(Document()) { joined($0, $1.document) }
        try require(forward.encoded() == backward.encoded(), "replicas do not converge")
    }

    private func joined(_ left: Document, _ right: Document) -> Document {
        var result = left
        result.merge(right)
        return result
    }

    private func require(_ holds: @autoclosure () -> Bool, _ otherwise: @autoclosure () -> String) throws {
        guard holds() else { throw Broken(otherwise()) }
    }
}

extension MapNode {
    fileprivate mutating func dropLosers() {
        for index in fields.indices {
            fields[index].slot.register = Leaves(
                ascending: fields[index].slot.register.suffix(1).map { $0 })
            fields[index].slot.map?.dropLosers()
        }
    }
}
