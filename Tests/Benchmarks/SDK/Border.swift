import DittoSwift
import Foundation

/// The reads that `Tests/Benchmarks/native.py` also makes by the C interface and in Python, on the store of
/// the directory: microseconds, medians of rounds.
func measureBorder(_ directory: String) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory))
    var point: [Double] = []
    var thousand: [Double] = []
    for _ in 0..<9 {
        var start = Clock.seconds()
        for _ in 0..<2_000 {
            let result = try await ditto.store.execute(
                query: "SELECT * FROM sensors WHERE _id = :id", arguments: ["id": "sensor-00000500"])
            precondition(result.items[0].value.count > 3)
        }
        point.append((Clock.seconds() - start) / 2_000 * 1e6)
        start = Clock.seconds()
        for _ in 0..<20 {
            let result = try await ditto.store.execute(query: "SELECT * FROM sensors")
            precondition(result.items.reduce(0) { $0 + $1.value.count } > 3_000)
        }
        thousand.append((Clock.seconds() - start) / 20 * 1e6)
    }
    await ditto.close()
    say(["point": point.median, "thousand": thousand.median])
}
