import CRDT
import Testing

@Suite("Clock, stamps and vectors")
struct ClockTests {
    @Test("timestamps ascend while the wall clock stands still, runs and is set back")
    func monotone() {
        var clock = HybridClock()
        let walls: [UInt64] = [5, 5, 5, 6, 100, 3, 0, 100, 101]
        let drawn = walls.map { clock.next(wallMilliseconds: $0) }
        #expect(zip(drawn, drawn.dropFirst()).allSatisfy { $0 < $1 })
        #expect(drawn[0] == 5 << 16)
        #expect(drawn[1] == 5 << 16 | 1)
        #expect(drawn[5] == 100 << 16 | 1)
        #expect(drawn[8] == 101 << 16)
        #expect(clock.latest == drawn[8])
    }

    @Test("a clock restored from its latest timestamp goes on above it")
    func restart() {
        var clock = HybridClock()
        let last = clock.next(wallMilliseconds: 1_000)
        var restored = HybridClock(latest: clock.latest)
        #expect(restored.next(wallMilliseconds: 10) == last + 1)
    }

    @Test("what was observed is exceeded, what is older changes nothing")
    func observing() {
        var clock = HybridClock(latest: 7 << 16)
        clock.observe(9 << 16 | 3)
        #expect(clock.next(wallMilliseconds: 2) == 9 << 16 | 4)
        clock.observe(1)
        #expect(clock.next(wallMilliseconds: 2) == 9 << 16 | 5)
    }

    @Test("a counter that overflows carries into the milliseconds")
    func overflow() {
        var clock = HybridClock(latest: 7 << 16 | 0xFFFF)
        let next = clock.next(wallMilliseconds: 7)
        #expect(next == 8 << 16)
        #expect(HybridClock.milliseconds(of: next) == 8)
    }

    @Test("a stamp may be a minute ahead of the wall clock and no more")
    func future() {
        let wall: UInt64 = 1_000_000
        let edge = (wall + Limits.clockFutureMilliseconds) << 16 | 0xFFFF
        #expect(!HybridClock.isTooFarAhead(edge, wallMilliseconds: wall))
        #expect(HybridClock.isTooFarAhead(edge + 1, wallMilliseconds: wall))
        #expect(!HybridClock.isTooFarAhead(0, wallMilliseconds: wall))
    }

    @Test("stamps order by time, then by actor as unsigned bits")
    func stampOrder() {
        let stamps = [
            Stamp(time: 1, actor: ActorID(.max)), Stamp(time: 2, actor: ActorID(0)),
            Stamp(time: 2, actor: ActorID(1)), Stamp(time: 2, actor: ActorID(1 << 63)),
            Stamp(time: .max, actor: ActorID(0)),
        ]
        #expect(stamps.reversed().sorted() == stamps)
        #expect(ActorID(0xAB).description == "00000000000000ab")
    }

    @Test("an absent actor covers nothing, not even time zero; an entry covers up to itself")
    func covering() {
        let actor = ActorID(1)
        let zero = Stamp(time: 0, actor: actor)
        #expect(!VersionVector().covers(zero))
        #expect(VersionVector([.init(actor: actor, time: 0)]).covers(zero))
        let vector = VersionVector([.init(actor: actor, time: 5), .init(actor: ActorID(2), time: 1)])
        #expect(vector.covers(Stamp(time: 5, actor: actor)))
        #expect(!vector.covers(Stamp(time: 6, actor: actor)))
        #expect(!vector.covers(Stamp(time: 0, actor: ActorID(3))))
        #expect(vector.covers(VersionVector()))
        #expect(vector.covers(vector))
        #expect(!VersionVector().covers(vector))
    }

    @Test("a union takes the greater time of each actor")
    func union() {
        let left = VersionVector([.init(actor: ActorID(1), time: 5), .init(actor: ActorID(3), time: 1)])
        let right = VersionVector([
            .init(actor: ActorID(3), time: 4), .init(actor: ActorID(2), time: 9),
            .init(actor: ActorID(3), time: 2),
        ])
        let joined = left.union(right)
        #expect(joined == right.union(left))
        #expect(joined.entries.map(\.actor.rawValue) == [1, 2, 3])
        #expect(joined.entries.map(\.time) == [5, 9, 4])
        #expect(joined.greatestTime == 9)
        #expect(joined[ActorID(2)] == 9)
        #expect(joined[ActorID(4)] == nil)
        #expect(VersionVector().isEmpty)
        #expect(VersionVector().greatestTime == nil)
    }
}
