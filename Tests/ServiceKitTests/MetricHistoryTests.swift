import CRDT
import Testing

@testable import ServiceKit

@Suite("The metrics of the last hour")
struct MetricHistoryTests {
    private static func points(
        _ history: MetricHistory, _ name: String, since: Int64 = 0, isCoarse: Bool = false
    ) -> [Value] {
        let series = history.value(names: [name], since: since, isCoarse: isCoarse).arrayValue ?? []
        return series.first?["points"]?.arrayValue ?? []
    }

    @Test("a metric is the sum of its series, and a histogram has sum and count")
    func sums() {
        let registry = PrometheusRegistry()
        registry.makeCounter(label: "requests", dimensions: [("status", "200")]).increment(by: 3)
        registry.makeCounter(label: "requests", dimensions: [("status", "404")]).increment(by: 2)
        registry.makeTimer(label: "took", dimensions: []).recordNanoseconds(2_000_000_000)
        let history = MetricHistory(registry: registry)
        history.record(milliseconds: 10)
        #expect(Self.points(history, "requests") == [[.int(10), .double(5)]])
        #expect(Self.points(history, "took") == [[.int(10), .double(2), .double(1)]])
        #expect(Self.points(history, "requests", since: 10).isEmpty)
    }

    @Test("an hour is kept finely and a day coarsely, however long it runs")
    func bounds() {
        let registry = PrometheusRegistry()
        registry.makeMeter(label: "level", dimensions: []).set(Int64(7))
        let history = MetricHistory(registry: registry)
        for turn in 0..<20_000 { history.record(milliseconds: Int64(turn) * 5_000) }
        let fine = Self.points(history, "level")
        #expect((Limits.metricPoints...Limits.metricPoints * 5 / 4).contains(fine.count))
        let coarse = Self.points(history, "level", isCoarse: true)
        #expect((Limits.metricCoarsePoints...Limits.metricCoarsePoints * 5 / 4).contains(coarse.count))
        #expect(fine.last == [.int(19_999 * 5_000), .double(7)])
    }
}
