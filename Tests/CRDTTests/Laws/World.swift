import TestSupport

@testable import CRDT

/// A law that does not hold, in words.
struct Broken: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// The replicas of one history, everything they ever wrote, and the oracle beside them.
struct World {
    private struct Replica {
        var actor: ActorID
        var clock = HybridClock()
        var document = Document()
    }

    /// A delta as it travels, and its author's state after it.
    struct Sent {
        let number: Int
        let delta: Delta
        let after: Document
        let author: Int
    }

    let sabotage: Sabotage?
    private var replicas: [Replica]
    private var actors: Int
    private(set) var sent: [Sent] = []
    var oracle = Oracle()
    /// Every state seen, by vector.
    var stateByVector: [VersionVector: Document] = [:]
    private(set) var states: [Document] = [Document()]

    init(replicas count: Int, sabotage: Sabotage? = nil) {
        self.sabotage = sabotage
        replicas = (0..<count).map { Replica(actor: World.actor($0)) }
        actors = count
    }

    /// The documents that the replicas hold now.
    var documents: [Document] { replicas.map(\.document) }

    /// Scattered over the 64 bits, so that the order of actors is not the order of their creation.
    static func actor(_ number: Int) -> ActorID {
        ActorID((UInt64(number) + 1) &* 0x9E37_79B9_7F4A_7C15)
    }

    mutating func perform(_ step: Step) throws {
        switch step {
        case .write(let number, let replica, let wall, let edits):
            try write(number, replica, wall, edits)
        case .deliver(let delta, let replica, let late):
            guard let message = sent.first(where: { $0.number == delta }) else { return }
            try deliver(message, to: replica, late: late)
        case .merge(let from, let into): try merge(replicas[from].document, into: into)
        case .mergeOld(let delta, let into):
            guard let message = sent.first(where: { $0.number == delta }) else { return }
            try merge(message.after, into: into)
        case .evict(let replica):
            guard actors < History.actorLimit else { return }
            replicas[replica].document = Document()
            if sabotage != .keepsActor { changeActor(of: replica) }
        case .changeActor(let replica):
            guard actors < History.actorLimit else { return }
            changeActor(of: replica)
        }
    }

    private mutating func changeActor(of replica: Int) {
        replicas[replica].actor = World.actor(actors)
        actors += 1
    }

    private mutating func write(_ number: Int, _ index: Int, _ wall: UInt64, _ edits: [Edit]) throws {
        let before = replicas[index].document
        if let greatest = before.vector.greatestTime, sabotage != .lowersStamps {
            replicas[index].clock.observe(greatest)
        }
        let stamp = Stamp(
            time: replicas[index].clock.next(wallMilliseconds: wall), actor: replicas[index].actor)
        let transaction = Transaction(before: before, stamp: stamp, sabotage: sabotage)
        guard let (delta, after) = try transaction.run(edits, &oracle) else { return }
        sent.append(Sent(number: number, delta: delta, after: after, author: index))
        try settle(index, after)
    }

    private mutating func deliver(_ message: Sent, to index: Int, late: Bool) throws {
        let delta = message.delta
        let before = replicas[index].document
        if let sabotage {
            return try settle(index, sabotage.received(delta, after: message.after, on: before))
        }
        var after = before
        switch after.apply(delta) {
        case .applied:
            try require(before.covers(baseOf: delta), "a delta applied without its base")
            try require(
                !delta.writesStamp || after == joined(before, message.after),
                "a delta gives another state than the full state")
        case .duplicate:
            try require(before.vector.covers(delta.resultingVector), "a new delta counts as a duplicate")
            try require(after == before, "a duplicate changed the document")
        case .baseMissing:
            try require(!before.covers(baseOf: delta), "a delta with its base was refused")
            try require(after == before, "a refused delta changed the document")
            let current = replicas[message.author].document
            after.merge(late && current.vector.covers(message.after.vector) ? current : message.after)
        }
        try settle(index, after)
    }

    private mutating func merge(_ other: Document, into index: Int) throws {
        try settle(index, joined(replicas[index].document, other))
    }

    /// A replica's new state, held against the oracle and against every state seen before.
    private mutating func settle(_ index: Int, _ state: Document) throws {
        let document = sabotage?.settled(state) ?? state
        try check(document)
        replicas[index].document = document
        states.append(document)
    }
}

extension Document {
    /// Returns whether the delta can apply: its base is covered, except for the seed that it brings itself.
    fileprivate func covers(baseOf delta: Delta) -> Bool {
        var known = vector
        if let seed = delta.seedStamp { known.insert(seed) }
        return known.covers(delta.base)
    }
}

func joined(_ left: Document, _ right: Document) -> Document {
    var result = left
    result.merge(right)
    return result
}

func require(_ holds: @autoclosure () throws -> Bool, _ otherwise: @autoclosure () -> String) throws {
    guard try holds() else { throw Broken(otherwise()) }
}
