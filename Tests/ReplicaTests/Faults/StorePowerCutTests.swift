import CRDT
import FaultDisk
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

@Suite("Power cuts")
struct StorePowerCutTests {
    @Test("a peer's store holds every write that returned, and of the one under way all or nothing")
    func peer() throws {
        var lostSectors: UInt64 = 0
        for seed in FaultRun.seeds(cutsEach: 1) {
            try withFaultDisk(seed: seed) { disk, folder in
                try withTemporaryDirectory { good in
                    let isLost = try self.cut(disk, folder, good, seed: seed)
                    #expect(!isLost, "seed \(seed)")
                    lostSectors += disk.counts.lost_sectors
                }
            }
        }
        // A check that nothing was ever taken from would show nothing.
        #expect(lostSectors > 0)
    }

    @Test("the same check finds what a store loses that does not sync its commits")
    func checkCanFail() throws {
        var losses = 0
        for seed in 1...12 as ClosedRange<UInt64> {
            try withFaultDisk(seed: seed) { disk, folder in
                try withTemporaryDirectory { good in
                    let isLost = try self.cut(disk, folder, good, seed: seed, synchronous: "NORMAL")
                    losses += isLost ? 1 : 0
                }
            }
        }
        #expect(losses > 0)
    }

    /// Works until the power goes.
    /// - Returns: whether a write that returned is not there afterwards, or one is there by half.
    private func cut(
        _ disk: FaultDisk, _ folder: URL, _ good: URL, seed: UInt64, synchronous: String = "FULL"
    ) throws -> Bool {
        var dice = SplitMix64(seed: seed ^ 0xD15C)
        var load = StoreLoad(seed: seed)
        let environments = (TestEnvironment(seed: seed), TestEnvironment(seed: seed))
        let reference = try open(good, environments.0)
        var expected = [try StoreDump(reference)]
        disk.cutPower(duringCall: 1 + dice.below(dice.chance(25) ? 40 : 400))
        if let store = try? open(folder, environments.1) {
            _ = try? store.store.pool.writeWithoutTransaction {
                try $0.execute(sql: "PRAGMA synchronous = \(synchronous)")
            }
            while !disk.isOff {
                let step = load.next()
                // Checkpoints change no content; a step that the store refuses is refused on both.
                expected = Array(expected.suffix(1))
                let refusal = code {
                    try reference.perform(step) { expected.append(try StoreDump(reference)) }
                }
                expected.append(try StoreDump(reference))
                let outcome = code { try store.perform(step) }
                if !disk.isOff { #expect(outcome == refusal, "seed \(seed), \(step)") }
            }
            try? store.close()
        }
        disk.restart()
        if synchronous != "FULL" { forgetMark(in: folder) }
        let note = Comment(rawValue: "seed \(seed)")
        let survivor = try open(folder, TestEnvironment(seed: seed))
        let found = try StoreDump(survivor)
        // The step under way when the power went, whole or not; it was the last one.
        let isLost = !expected.contains(found)
        try checkWhole(survivor, note)
        // What was found is on the disk: another cut takes nothing of it.
        try survivor.execute("INSERT INTO c DOCUMENTS ({'_id': 'last'})")
        let last = try StoreDump(survivor)
        disk.cutPower()
        try? survivor.close()
        disk.restart()
        let again = try open(folder, TestEnvironment(seed: seed))
        #expect(try StoreDump(again) == last, note)
        try again.close()
        try reference.close()
        return isLost
    }

    /// The mark of a store that does not sync its commits says nothing after the machine has started again.
    /// Here it has not.
    private func forgetMark(in folder: URL) {
        let mark = folder.appendingPathComponent("\(DocumentStore.fileName)-mark")
        try? FileManager.default.removeItem(at: mark)
    }

    private func checkWhole(_ store: some Replica, _ note: Comment) throws {
        let check = try store.store.pool.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
        #expect(check == "ok", note)
    }

    @Test("a materialization holds a prefix of what it folded, with the checkpoint that belongs to it")
    func materialization() throws {
        for seed in FaultRun.seeds(cutsEach: 3) {
            try withFaultDisk(seed: seed) { disk, folder in
                try withTemporaryDirectory { good in
                    let reference = try openFold(good)
                    var dice = SplitMix64(seed: seed ^ 0xF01D)
                    var load = StoreLoad(seed: seed)
                    var log = TestLog()
                    var expected = [try StoreDump(reference)]
                    for _ in 0..<3 {
                        disk.cutPower(duringCall: 1 + dice.below(300))
                        if let store = try? openFold(folder) {
                            while !disk.isOff {
                                let folded = reference.foldedThrough
                                for _ in 0...dice.below(4) {
                                    log.append(try load.operation(after: log.head.offset))
                                }
                                for item in log.items(after: folded) {
                                    _ = try reference.fold([item])
                                    expected.append(try StoreDump(reference))
                                }
                                _ = try? store.fold(log.items(after: store.foldedThrough))
                                if dice.chance(20) { _ = try? store.checkpoint(truncates: false) }
                            }
                            try? store.close()
                        }
                        disk.restart()
                        forgetMark(in: folder)
                        let survivor = try openFold(folder)
                        let note = Comment(rawValue: "seed \(seed), head \(survivor.head)")
                        #expect(try StoreDump(survivor) == expected[Int(survivor.head)], note)
                        try checkWhole(survivor, note)
                        _ = try survivor.fold(log.items(after: survivor.foldedThrough))
                        #expect(try StoreDump(survivor) == expected.last, note)
                        try survivor.close()
                    }
                    try reference.close()
                }
            }
        }
    }
}
