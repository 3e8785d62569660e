import Testing

@testable import Transport

@Suite("The pause before a peer connects again")
struct ReconnectPauseTests {
    private let first = Limits.firstReconnectPause
    private let longest = Limits.longestReconnectPause

    @Test("it doubles with each failure, up to a bound")
    func doublesUpToTheLongest() {
        var pause = ReconnectPause()
        var expected = first
        for _ in 0..<20 {
            #expect(pause.next(random: 0) == expected * 0.5)
            expected = min(expected * 2, longest)
        }
        #expect(expected == longest)
    }

    @Test("it lies between half and the whole")
    func liesBetweenHalfAndTheWhole() {
        for random in [0, 1 << 20, 1 << 62, .max / 2, .max] as [UInt64] {
            var pause = ReconnectPause()
            let taken = pause.next(random: random)
            #expect(first * 0.5 <= taken && taken <= first)
        }
        var (least, most) = (ReconnectPause(), ReconnectPause())
        #expect(least.next(random: 0) == first * 0.5)
        #expect(most.next(random: .max) > first * 0.999)
    }

    @Test("a thousand peers come back all over it, in no tenth of it more than twice their share")
    func peersDoNotComeBackTogether() {
        var generator = SystemRandomNumberGenerator()
        var tenths = Array(repeating: 0, count: 10)
        for _ in 0..<1_000 {
            var pause = ReconnectPause()
            let part = (pause.next(random: generator.next()) - first * 0.5) / (first * 0.5)
            tenths[min(Int(part * 10), 9)] += 1
        }
        #expect(tenths.allSatisfy { $0 > 0 && $0 < 200 })
    }

    @Test("after a session that was well it begins anew")
    func beginsAnewAfterASessionThatWasWell() {
        var pause = ReconnectPause()
        for _ in 0..<5 { _ = pause.next(random: 0) }
        pause.reset()
        #expect(pause.next(random: 0) == first * 0.5)
    }
}
