import TestSupport

@testable import CRDT

// What becomes of a store's writes that nobody has seen: when the document was reaped meanwhile (rules 13,
// 14), and when its actor has to be closed (rules 9, 20, 21).

extension World {
    /// A store returns to find its document reaped: of its state exactly that survives which the frontier
    /// does not cover, and a server that forgot the document makes the same of the store's deltas.
    func checkReturn(_ random: inout SplitMix64) throws {
        let store = random.below(documents.count)
        let document = documents[store]
        let frontier = random.pick(states).vector
        let own = sent.filter { $0.author == store && document.vector.covers($0.delta.resultingVector) }
            .map(\.delta)
        let view = OracleView(oracle, document.vector.union(frontier), without: frontier)
        // Nothing tells which part of another store's total is unseen.
        let actors = Set(own.map(\.stamp.actor))
        guard !view.hasDividedTotals(besides: actors) else { return }
        let returned = document.gone(frontier: frontier, replaying: own)
        try require(
            returned.vector == document.vector.union(frontier), "a return forgets what was seen")
        try StructureCheck(view).check(returned)
        try require(try Document(decoding: returned.encoded()) == returned, "a return does not survive")
        let unseen = sent.filter { document.vector.covers($0.delta.resultingVector) }.map(\.delta)
            .filter { !frontier.covers($0.resultingVector) }
        // Another store's removal, written on what the server has forgotten and arriving after this store's
        // increments, would count its baseline against totals that began anew; so would one of this store
        // under another of its actors (seed 301370). That is why a store that returns moves its writes.
        guard let actor = unseen.first?.stamp.actor, unseen.allSatisfy({ $0.stamp.actor == actor }) else {
            return
        }
        var server = Document(vector: frontier, root: MapNode())
        for delta in unseen { try require(server.apply(delta) != .baseMissing, "a return leaves a gap") }
        try require(server == returned, "a server that forgot the document makes something else of it")
        if actors.contains(actor) { try checkReturnByMoving(unseen, frontier) }
    }

    /// The store moves what the server has not seen to a new actor, on nothing (rules 10 and 14): every write
    /// has the effect that it had, without what is gone, on a server that has nothing of the document.
    private func checkReturnByMoving(_ unseen: [Delta], _ frontier: VersionVector) throws {
        var document = Document()
        var renamed = oracle
        var known = frontier
        for delta in unseen where delta.writesStamp {
            let stamp = Stamp(time: delta.stamp.time, actor: World.actor(History.actorLimit))
            let moved = delta.restamped(stamp, on: document, base: document.vector)
            try require(document.apply(moved) == .applied, "a write moved onto nothing does not apply")
            renamed.rename(delta.stamp, to: stamp)
            known.insert(stamp)
        }
        // What only seeds is not moved; a seed keeps its own actor.
        guard unseen.allSatisfy({ $0.seedStamp == nil }) else { return }
        try StructureCheck(OracleView(renamed, known, without: frontier)).check(document)
    }

    /// A store moves its last writes, which nobody has seen, to another actor: each has the effect that it
    /// had.
    func checkMove(_ random: inout SplitMix64) throws {
        let (moved, others) = unseenWrites(&random)
        guard let actor = moved.first?.stamp.actor else { return }
        var document = Document()
        var waiting = others
        while !waiting.isEmpty {
            let left = waiting.filter { document.apply($0) == .baseMissing }
            try require(left.count < waiting.count, "deltas wait for a base that nobody wrote")
            waiting = left
        }
        let admitted = document.vector[actor]
        var renamed = oracle
        for delta in moved {
            let latest = max(document.vector.greatestTime ?? 0, delta.base.greatestTime ?? 0)
            let stamp = Stamp(time: latest + 1, actor: World.actor(History.actorLimit))
            let again = delta.restamped(stamp, on: document, admitted: admitted)
            try require(
                try Delta(decoding: again.encoded(), stamp: stamp) == again,
                "a moved delta does not survive its encoding")
            try require(document.apply(again) == .applied, "a moved delta does not apply")
            renamed.rename(delta.stamp, to: stamp)
        }
        try require(document.vector[actor] == admitted, "a closed actor goes on")
        try StructureCheck(OracleView(renamed, document.vector)).check(document)
    }

    /// The last deltas of one actor, on which nobody else's rest, and everybody else's.
    private func unseenWrites(_ random: inout SplitMix64) -> (moved: [Delta], others: [Delta]) {
        let deltas = sent.map(\.delta)
        guard !deltas.isEmpty else { return ([], []) }
        let actor = random.pick(deltas).stamp.actor
        let own = deltas.filter { $0.stamp.actor == actor && $0.writesStamp }
        for count in (0..<min(own.count, 1 + random.below(4)) + 1).reversed() where count > 0 {
            let first = own[own.count - count].stamp
            let isSeen = deltas.contains { $0.stamp.actor != actor && $0.base.covers(first) }
            guard !isSeen else { continue }
            let isMoved = { (delta: Delta) in
                delta.stamp.actor == actor && delta.writesStamp && delta.stamp.time >= first.time
            }
            return (deltas.filter(isMoved), deltas.filter { !isMoved($0) })
        }
        return ([], [])
    }
}
