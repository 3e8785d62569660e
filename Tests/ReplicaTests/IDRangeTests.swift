import DQLCorpus
import Foundation
import TestSupport
import Testing

@Suite("Ranges and order of ids on the replica")
struct IDRangeTests {
    @Test("ids of every type and length are found by ranges, by prefixes and in order, without a scan")
    func ranges() throws {
        try withTemporaryDirectory { folder in
            for number in 0..<Depth.pick(fast: 2, deep: 50) {
                let engine = try ReplicaEngine(folder: folder.appendingPathComponent("\(number)"))
                let faults = try IDRangeCases.faults(on: engine, seed: Depth.seed &+ UInt64(number))
                #expect(faults == [], "MIMEO_SEED=\(Depth.seed): \(faults.joined(separator: "\n"))")
                for condition in ["WHERE _id > 5", "WHERE _id LIKE 'a%'", "ORDER BY _id DESC LIMIT 3"] {
                    let plan = try engine.rows("EXPLAIN SELECT * FROM ids \(condition)")
                    #expect("\(plan)".contains("idRangeScan"), "\(condition): \(plan)")
                }
                try engine.close()
            }
        }
    }
}
