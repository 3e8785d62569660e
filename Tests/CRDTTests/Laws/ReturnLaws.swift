import TestSupport

@testable import CRDT

// The fate of a store's writes when the document was reaped meanwhile (rules 13, 14), and when its actor
// has to be closed (rules 9, 20, 21).

extension World {
    /// A server has reaped a part of what a store holds, and deletes it anew: what it names is not shown by
    /// anybody any more.
    func checkDeletedAnew(_ random: inout SplitMix64) throws {
        let document = random.pick(documents)
        let lost = random.pick(states).vector
        let stamp = Stamp(time: .max >> 1, actor: World.actor(History.actorLimit))
        // Documents that leave more than their vector are not reaped: remains of counters, names of seeds.
        guard document.merged(Document().raised(to: document.vector, by: stamp)).isForgettable else { return }
        let anew = Document().raised(to: lost, by: stamp)
        let left = document.merged(anew)
        try require(left == anew.merged(document), "a deletion anew merges by order")
        try require(try Document(decoding: left.encoded()) == left, "a deletion anew does not survive")
        try require(
            lost.covers(document.vector) ? !left.isLive : true, "what is deleted anew is shown")
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
