import Testing

@testable import CRDT

@Suite("Tombstones, reaping and the return after it")
struct TombstoneTests {
    private func start() throws -> Document {
        try edited(at: 10, by: 1) {
            $0.create()
            try $0.set(["a"], 1)
            try $0.increment(["n"], by: 5)
        }
    }

    // MARK: Tombstones

    @Test("a deleted document is a tombstone of its last write; nothing else is one")
    func tombstones() throws {
        let deleted = try edited(try start(), at: 20, by: 2) { $0.delete() }
        #expect(deleted.isTombstone && deleted.deletedAt == 20)
        #expect(try !start().isTombstone)
        #expect(try start().deletedAt == nil)
        #expect(!Document().isTombstone && Document().deletedAt == nil)
        try deleted.encoded().withUnsafeBytes { raw in
            let reader = try DocumentReader(raw)
            #expect(!reader.isLive)
            #expect(try reader.root.count() == 0)
            #expect(try reader.root.field("n") == nil)
        }
    }

    @Test("a tombstone outlives its time by the clock of its last writer, and a live document never")
    func timeToLive() throws {
        let hour: UInt64 = 3_600_000
        let deleted = try edited(try start(), at: 5 * hour << 16, by: 2) { $0.delete() }
        #expect(!deleted.hasOutlived(.seconds(3_600), wallMilliseconds: 6 * hour))
        #expect(deleted.hasOutlived(.seconds(3_600), wallMilliseconds: 6 * hour + 1))
        #expect(!deleted.hasOutlived(.seconds(3_600), wallMilliseconds: hour))
        #expect(try !start().hasOutlived(.zero, wallMilliseconds: 6 * hour))
    }

    @Test("reaping leaves nothing, or the seeds that were there")
    func reaping() throws {
        let deleted = try edited(try start(), at: 20, by: 2) { $0.delete() }
        #expect(deleted.reaped() == nil)
        let content = object(["a": 1])
        let seeded = try edited(at: 10, by: 1) { _ = try $0.seed(content) }
        let gone = try #require(try edited(seeded, at: 20, by: 2) { $0.delete() }.reaped())
        #expect(gone.vector == seeded.vector && !gone.isLive)
        #expect(try edited(gone, at: 30, by: 1) { _ = try $0.seed(content) } == gone)
        #expect(gone.reaped() == gone)
    }

    @Test(
        "seeds that were reaped under an earlier write are gone in every join, whatever is joined with what")
    func reapedUnderWrites() throws {
        let seeded = try edited(at: 10, by: 1) { _ = try $0.seed(object(["a": 1])) }
        let earlier = try edited(seeded, at: 11, by: 1) { try $0.set(["b"], 2) }
        let later = try edited(earlier, at: 12, by: 1) { try $0.set(["c"], 3) }
        var rest = try #require(Document(restOf: seeded.vector))
        rest.merge(earlier)
        #expect(rest.vector == earlier.vector && Value.object(rest.value) == ["b": 2])
        for (first, second) in [(later, rest), (rest, later)] {
            var joined = first
            joined.merge(second)
            #expect(joined.vector == later.vector && Value.object(joined.value) == ["b": 2, "c": 3])
        }
        #expect(try Document(restOf: start().vector) == nil)
    }

    // MARK: Return

    @Test("what the frontier covers is dropped, a store's unseen writes survive as against a deletion")
    func gone() throws {
        let known = try start()
        let frontier = VersionVector([.init(actor: ActorID(1), time: 10), .init(actor: ActorID(3), time: 99)])
        let first = try delta(on: known, at: 20, by: 1) {
            try $0.set(["b"], 2)
            try $0.increment(["n"], by: 2)
        }
        let second = try delta(on: known.applied(first), at: 30, by: 1) {
            try $0.increment(["n"], by: 1)
            try $0.set(["c", "d"], 3)
        }
        let mine = known.applied(first).applied(second)
        let left = mine.gone(frontier: frontier, replaying: [first, second])
        #expect(Value.object(left.value) == ["b": 2, "c": ["d": 3], "n": 3])
        // The log, which has nothing of this document, makes the same of the deltas alone.
        let empty = Document(vector: frontier, root: MapNode())
        #expect(empty.applied(first).applied(second) == left)
        #expect(try Document(decoding: left.encoded()) == left)
    }

    @Test(
        "a seed that was reaped elsewhere does not survive a return: reaping has left its part of the vector")
    func goneSeed() throws {
        let content = object(["a": 1])
        let seeded = try edited(at: 10, by: 1) { _ = try $0.seed(content) }
        let mine = try edited(seeded, at: 11, by: 1) { try $0.set(["b"], 2) }
        let left = try #require(try edited(mine, at: 20, by: 2) { $0.delete() }.reaped())
        let log = VersionVector([.init(actor: ActorID(1), time: 11), .init(actor: ActorID(2), time: 20)])
        let returned = mine.gone(frontier: log.union(left.vector), replaying: [])
        #expect(!returned.isLive)
        #expect(try edited(returned, at: 30, by: 1) { _ = try $0.seed(content) } == returned)
    }

    @Test("what somebody alone knows of a document is left without the rest, which may come back")
    func only() throws {
        let known = try start()
        let own = try delta(on: known, at: 20, by: 3) {
            try $0.set(["b"], 2)
            try $0.increment(["n"], by: 2)
        }
        var left = known.applied(own).only(of: [ActorID(3)], replaying: [own])
        #expect(left.vector == VersionVector([.init(actor: ActorID(3), time: 20)]))
        #expect(Value.object(left.value) == ["b": 2, "n": 2])
        left.merge(known)
        #expect(left == known.applied(own))
    }

    @Test("what the frontier covers whole leaves an empty document, and a second time nothing changes")
    func goneWhole() throws {
        let mine = try start()
        let left = mine.gone(frontier: mine.vector, replaying: [])
        #expect(!left.isLive && left.root.isEmpty && left.vector == mine.vector)
        #expect(left.gone(frontier: mine.vector, replaying: []) == left)
    }

    @Test("what was written again after a reaping stays, whatever a returning store knows of the time before")
    func goneAround() throws {
        let before = try edited(start(), at: 20, by: 3) { $0.delete() }
        let anew = try edited(at: 40, by: 2) {
            try $0.set(["b"], 2)
            try $0.increment(["n"], by: 2)
        }
        var known = before
        known.merge(anew)
        let mine = try edited(known, at: 50, by: 4) {
            try $0.set(["c"], 3)
            try $0.increment(["n"], by: 1)
        }
        let left = mine.gone(
            frontier: before.vector.union(anew.vector), replaying: [], keeping: anew)
        var merged = anew
        merged.merge(left)
        #expect(Value.object(merged.value) == ["b": 2, "c": 3, "n": 3])
        // A field goes that the returning store has removed since.
        let removing = try edited(known, at: 60, by: 5) { try $0.unset(["b"]) }
        merged.merge(
            removing.gone(frontier: before.vector.union(anew.vector), replaying: [], keeping: anew))
        #expect(Value.object(merged.value) == ["c": 3, "n": 3])
        let uncounting = try edited(known, at: 60, by: 5) { try $0.unset(["n"]) }
        let uncounted = anew.merged(
            uncounting.gone(frontier: before.vector.union(anew.vector), replaying: [], keeping: anew))
        #expect(Value.object(uncounted.value) == ["b": 2])
    }

    @Test("the removal of a counter stays with who has seen it, whatever the other side keeps")
    func removedCounter() throws {
        let here = try edited(at: 10, by: 1) { try $0.increment(["n"], by: 5) }
        let removals: [(inout DocumentEditor) throws -> Void] = [
            { try $0.unset(["n"]) }, { $0.delete() }, { try $0.restart(["n"], with: 1) },
        ]
        for remove in removals {
            let there = try edited(here, at: 20, by: 2, remove)
            #expect(there.without(VersionVector(), keeping: here) == there)
            // The log has the increment, and not the removal.
            #expect(here.merged(there.gone(frontier: here.vector, replaying: [], keeping: here)) == there)
            // Counted on, without having seen that.
            let more = try edited(here, at: 30, by: 1) { try $0.increment(["n"], by: 2) }
            #expect(more.merged(there.without(VersionVector(), keeping: more)) == more.merged(there))
        }
    }

    @Test("a baseline from before a reaping is not taken from a counter that began again, whatever is unseen")
    func baselineOfAnotherSum() throws {
        for amount in [5, -5] as [Int64] {
            let counted = try edited(at: 10, by: 1) { try $0.increment(["n"], by: .int(amount)) }
            let deleted = try edited(counted, at: 20, by: 2) { $0.delete() }
            let first = try delta(on: Document(), at: 30, by: 1) { try $0.increment(["n"], by: 2) }
            let second = try delta(on: Document().applied(first), at: 31, by: 1) {
                try $0.increment(["n"], by: 2)
            }
            let anew = Document(vector: deleted.vector, root: MapNode()).applied(first).applied(second)
            // With a field that only this side has, also where one of the new increments is here.
            for known in [deleted, deleted.applied(first)] {
                let mine = try edited(known, at: 40, by: 3) { try $0.set(["b"], 1) }
                let taken = anew.merged(
                    mine.gone(frontier: deleted.vector.union(anew.vector), replaying: [], keeping: anew))
                #expect(Value.object(taken.value) == ["b": 1, "n": 4])
                let dropped = anew.merged(mine.without(deleted.vector, keeping: anew))
                #expect(Value.object(dropped.value) == ["b": 1, "n": 4])
            }
        }
    }

    @Test("a state shows more than a note leaves of it, not more than the other side has removed or counted")
    func showsMore() throws {
        let base = try start()
        let changed = try edited(base, at: 20, by: 2) { try $0.set(["b"], 2) }
        let gone = VersionVector([.init(actor: ActorID(2), time: 20)])
        #expect(changed.shows(moreThan: changed.without(gone, keeping: base)))
        #expect(!base.shows(moreThan: base.without(gone, keeping: changed)))
        let counted = try edited(base, at: 30, by: 3) { try $0.increment(["n"], by: 1) }
        #expect(!base.shows(moreThan: base.without(gone, keeping: counted)))
        let uncounted = try edited(base, at: 40, by: 4) { try $0.unset(["n"]) }
        #expect(!base.shows(moreThan: base.without(gone, keeping: uncounted)))
        #expect(counted.shows(moreThan: counted.without(counted.vector, keeping: base)))
        // An older state shows no more than one that has counted on.
        let more = try edited(base, at: 50, by: 1) { try $0.increment(["n"], by: 1) }
        #expect(!base.shows(moreThan: base.without(gone, keeping: more)))
    }

    @Test("removals and RESTARTs among the unseen writes keep their effect on what is unseen")
    func goneWithRemovals() throws {
        let known = try start()
        let frontier = VersionVector([.init(actor: ActorID(1), time: 10)])
        var mine = known
        var own: [Delta] = []
        let steps: [(inout DocumentEditor) throws -> Void] = [
            { try $0.increment(["n"], by: 7) }, { try $0.restart(["n"], with: 100) },
            { try $0.increment(["n"], by: 1) }, { try $0.increment(["m", "k"], by: 1) },
            { try $0.unset(["m"]) }, { try $0.increment(["m", "k"], by: 0.5) },
        ]
        for (number, step) in steps.enumerated() {
            own.append(try delta(on: mine, at: 20 + UInt64(number), by: 1, step))
            mine = mine.applied(own[number])
        }
        let left = mine.gone(frontier: frontier, replaying: own)
        #expect(Value.object(left.value) == ["m": ["k": 0.5], "n": 101])
        let empty = Document(vector: frontier, root: MapNode())
        #expect(own.reduce(empty) { $0.applied($1) } == left)
    }

    @Test("what a third store wrote unseen survives too, and what it saw of this store's increments")
    func goneWithThirdStore() throws {
        let known = try start()
        let frontier = VersionVector([.init(actor: ActorID(1), time: 10)])
        let first = try delta(on: known, at: 20, by: 1) { try $0.increment(["n"], by: 7) }
        let third = try delta(on: known.applied(first), at: 30, by: 3) {
            try $0.set(["c"], 1)
            try $0.restart(["n"], with: 50)
        }
        let last = try delta(on: known.applied(first).applied(third), at: 40, by: 1) {
            try $0.increment(["n"], by: 1)
        }
        let mine = known.applied(first).applied(third).applied(last)
        let left = mine.gone(frontier: frontier, replaying: [first, last])
        #expect(Value.object(left.value) == ["c": 1, "n": 51])
        #expect(left.vector == mine.vector)
        #expect(left.root["n"]?.counter?[ActorID(1)]?.point.total == 8)
        #expect(left.root["n"]?.counter?[ActorID(1)]?.baseline?.total == 7)
    }

    @Test("what was removed of a third store's counter is not taken from what it counts anew")
    func goneWithBaseline() throws {
        let removed = try edited(try start(), at: 20, by: 2) { $0.delete() }
        // The log has reaped it; the third store begins anew, here the tombstone was kept.
        let anew = try delta(on: Document(), at: 30, by: 1) { try $0.increment(["n"], by: 1) }
        let more = try delta(on: Document().applied(anew), at: 31, by: 1) { try $0.increment(["n"], by: 1) }
        let log = Document(vector: removed.vector, root: MapNode()).applied(anew)
        let left = removed.applied(anew).gone(frontier: removed.vector, replaying: [])
        #expect(left == log)
        #expect(Value.object(left.merged(log.applied(more)).value) == ["n": 2])
    }

    /// As actor 1 it would read -3 in both: a total that began anew against a baseline of 5.
    @Test("a store that counts on after reaping does so as another actor: no old baseline is taken from it")
    func actorAfterReaping() throws {
        let kept = try edited(try start(), at: 20, by: 2) { $0.delete() }
        let first = try delta(on: Document(), at: 30, by: 3) { try $0.increment(["n"], by: 1) }
        let second = try delta(on: Document().applied(first), at: 31, by: 3) {
            try $0.increment(["n"], by: 1)
        }
        let anew = Document().applied(first).applied(second)
        // Where the tombstone was kept, and the state in between comes late.
        #expect(Value.object(anew.merged(kept.applied(first)).value) == ["n": 2])
        #expect(anew.merged(kept.applied(first)) == kept.applied(first).applied(second))
        // Where it was not, and the removal of a store that was away names the old total.
        let late = try delta(on: try start(), at: 25, by: 4) { $0.delete() }
        let reaped = Document(vector: kept.vector, root: MapNode()).applied(first).applied(second)
        #expect(Value.object(reaped.applied(late).value) == ["n": 2])
    }

    // MARK: Another actor

    @Test("unseen writes move to another actor and do there what they did")
    func restamped() throws {
        let known = try start()
        let steps: [(inout DocumentEditor) throws -> Void] = [
            { try $0.increment(["n"], by: 7) }, { try $0.set(["a"], 2) },
            {
                try $0.set(["a"], 3)
                try $0.restart(["n"], with: 100)
            },
            { try $0.increment(["n"], by: 1) }, { try $0.unset(["a"]) },
            {
                $0.delete()
                try $0.set(["z"], 1)
            },
        ]
        var mine = known
        // As the others have it: they took nothing after time 10.
        var theirs = known
        for (number, step) in steps.enumerated() {
            let written = try delta(on: mine, at: 20 + UInt64(number), by: 1, step)
            mine = mine.applied(written)
            let stamp = Stamp(time: 50 + UInt64(number), actor: ActorID(8))
            let moved = written.restamped(stamp, on: theirs, admitted: 10)
            let decoded = try Delta(decoding: moved.encoded(), stamp: stamp)
            #expect(theirs.apply(decoded) == .applied)
            #expect(theirs.value == mine.value, "step \(number)")
            #expect(theirs.vector[ActorID(1)] == 10)
        }
    }

    @Test("an actor of which nothing was taken leaves the base; a seed keeps its stamp")
    func restampedFromNothing() throws {
        let content = object(["a": 1])
        let seed = try delta(on: Document(), at: 5, by: 1) { _ = try $0.seed(content) }
        let update = try delta(on: Document().applied(seed), at: 6, by: 1) {
            try $0.increment(["m", "n"], by: 1)
        }
        let removal = try delta(on: Document().applied(seed).applied(update), at: 7, by: 1) {
            try $0.unset(["m"])
        }
        var document = Document()
        for (number, written) in [seed, update, removal].enumerated() {
            let stamp = Stamp(time: 50 + UInt64(number), actor: ActorID(8))
            let moved = written.restamped(stamp, on: document, admitted: nil)
            #expect(moved.base[ActorID(1)] == nil)
            #expect(try Delta(decoding: moved.encoded(), stamp: stamp) == moved)
            #expect(document.apply(moved) == .applied)
        }
        #expect(Value.object(document.value) == ["a": 1])
        #expect(document.vector[ActorID(8)] == 52 && document.vector[ActorID(1)] == nil)
        let counter = document.root["m"]?.map?["n"]?.counter
        #expect(counter?.entries.map(\.survives) == [false])
    }

    @Test("several actors of one store close at once, on a base worked out for all of them")
    func restampedFromSeveral() throws {
        let known = try start()
        let one = try delta(on: known, at: 20, by: 1) { try $0.increment(["n"], by: 7) }
        let two = try delta(on: known.applied(one), at: 30, by: 2) { try $0.increment(["n"], by: 2) }
        let third = try delta(on: known.applied(one).applied(two), at: 40, by: 2) {
            try $0.restart(["n"], with: 100)
        }
        let last = try delta(on: known.applied(one).applied(two).applied(third), at: 41, by: 2) {
            try $0.increment(["n"], by: 1)
        }
        var theirs = known
        for (number, written) in [one, two, third, last].enumerated() {
            let stamp = Stamp(time: 50 + UInt64(number), actor: ActorID(8))
            let moved = written.restamped(stamp, on: theirs, base: theirs.vector)
            #expect(try Delta(decoding: moved.encoded(), stamp: stamp) == moved)
            #expect(theirs.apply(moved) == .applied)
        }
        #expect(theirs.value["n"] == 101)
        #expect(
            theirs.vector
                == VersionVector([.init(actor: ActorID(1), time: 10), .init(actor: ActorID(8), time: 53)]))
    }
}
