import Testing

@testable import CRDT

@Suite("Tombstones, reaping and the deletion anew after it")
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

    // MARK: Deleted anew

    @Test("what is deleted anew keeps what is here, and takes from every copy what it names, whatever merges")
    func raised() throws {
        let known = try edited(at: 10, by: 1) { try $0.set(["a"], 1) }
        let deleted = try edited(known, at: 20, by: 2) { $0.delete() }
        let anew = try edited(at: 40, by: 3) { try $0.set(["b"], 2) }
        let lost = deleted.vector
        let named = anew.raised(to: lost, by: Stamp(time: 41, actor: ActorID(9)))
        #expect(named.value == anew.value)
        #expect(
            named.vector == lost.union(anew.vector).union(VersionVector([.init(actor: ActorID(9), time: 41)]))
        )
        #expect(try Document(decoding: named.encoded()) == named)
        // Whoever holds a part has the same bytes behind the merge, in any order.
        let more = try edited(known, at: 30, by: 4) { try $0.set(["c"], 3) }
        for copy in [known, more] {
            #expect(named.merged(copy) == copy.merged(named))
            #expect(Value.object(named.merged(known).value) == ["b": 2])
        }
        #expect(Value.object(named.merged(more).value) == ["b": 2, "c": 3])
        #expect(named.merged(more).merged(known) == named.merged(known).merged(more))
        // Nothing at all is left of a document that was not written again.
        let empty = Document().raised(to: known.vector, by: Stamp(time: 41, actor: ActorID(9)))
        #expect(empty.isTombstone && !empty.merged(known).isLive)
    }

    @Test("a tombstone is forgotten whole if nothing of it is needed: no seed, and no remains of a counter")
    func forgettable() throws {
        let plain = try edited(at: 10, by: 1) { try $0.set(["a"], 1) }
        #expect(!plain.isForgettable && !Document().isForgettable)
        #expect(try edited(plain, at: 20, by: 2) { $0.delete() }.isForgettable)
        #expect(try !edited(start(), at: 20, by: 2) { $0.delete() }.isForgettable, "remains of a counter")
        let seeded = try edited(at: 10, by: 1) { _ = try $0.seed(object(["a": 1])) }
        let unseeded = try edited(seeded, at: 20, by: 2) { $0.delete() }
        #expect(!unseeded.isForgettable, "a seed")
        let rest = try #require(unseeded.reaped())
        #expect(rest.isRestOfSeeds && !unseeded.isRestOfSeeds && !rest.isForgettable)
    }

    @Test("a state shows more than another, not more than the other has removed or counted")
    func showsMore() throws {
        let base = try start()
        let changed = try edited(base, at: 20, by: 2) { try $0.set(["b"], 2) }
        #expect(changed.shows(moreThan: base) && !base.shows(moreThan: changed))
        let counted = try edited(base, at: 30, by: 3) { try $0.increment(["n"], by: 1) }
        #expect(counted.shows(moreThan: base) && !base.shows(moreThan: counted))
        let uncounted = try edited(base, at: 40, by: 4) { try $0.unset(["n"]) }
        #expect(!base.shows(moreThan: uncounted))
        // An older state shows no more than one that has counted on.
        let more = try edited(base, at: 50, by: 1) { try $0.increment(["n"], by: 1) }
        #expect(!base.shows(moreThan: more))
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
