import Foundation
import TestSupport
import Testing

@testable import CRDT

/// The laws of rules.md over random histories. `MIMEO_HISTORIES=1000000` runs that many instead.
@Suite("Random histories")
struct HistoryTests {
    static let chunk = 100
    static let histories = ProcessInfo.processInfo.environment["MIMEO_HISTORIES"].flatMap { Int($0) } ?? 3_000
    static let seeds = stride(from: 0, to: histories, by: chunk).map { start in
        UInt64(start)..<UInt64(min(start + chunk, histories))
    }

    @Test("every history keeps the laws and agrees with the oracle at every step", arguments: seeds)
    func laws(_ seeds: Range<UInt64>) {
        #expect(History.firstCounterexample(seeds) == nil)
    }

    @Test("a broken rule is found and its history shrinks to a few steps", arguments: Sabotage.allCases)
    func sabotage(_ sabotage: Sabotage) throws {
        let seed = try #require((0..<200).first { History(seed: $0).failure(sabotage) != nil })
        let small = History(seed: UInt64(seed)).shrunk(sabotage)
        #expect(small.failure(sabotage) != nil)
        #expect(small.failure() == nil)
        #expect(small.steps.count <= 8)
    }
}
