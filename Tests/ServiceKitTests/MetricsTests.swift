import CoreMetrics
import ServiceKit
import Testing

@Suite("Prometheus text")
struct MetricsTests {
    @Test("counters, gauges and histograms are written as the format asks")
    func format() {
        let registry = PrometheusRegistry()
        registry.makeCounter(label: "log.appends", dimensions: [("database", "a\"b")]).increment(by: 3)
        registry.makeMeter(label: "sessions", dimensions: []).set(2.5)
        let timer = registry.makeTimer(label: "wait", dimensions: [])
        timer.recordNanoseconds(2_000_000)
        timer.recordNanoseconds(20_000_000_000)
        let lines = registry.text().split(separator: "\n")
        #expect(lines.contains("# TYPE log_appends counter"))
        #expect(lines.contains(#"log_appends{database="a\"b"} 3"#))
        #expect(lines.contains("sessions 2.5"))
        #expect(lines.contains(#"wait_bucket{le="0.001"} 0"#))
        #expect(lines.contains(#"wait_bucket{le="0.005"} 1"#))
        #expect(lines.contains(#"wait_bucket{le="10"} 1"#))
        #expect(lines.contains(#"wait_bucket{le="+Inf"} 2"#))
        #expect(lines.contains("wait_sum 20.002"))
        #expect(lines.contains("wait_count 2"))
    }

    @Test("the same name and labels are one series, whatever their order")
    func same() {
        let registry = PrometheusRegistry()
        registry.makeCounter(label: "c", dimensions: [("a", "1"), ("b", "2")]).increment(by: 1)
        registry.makeCounter(label: "c", dimensions: [("b", "2"), ("a", "1")]).increment(by: 1)
        #expect(registry.text().contains(#"c{a="1",b="2"} 2"#))
    }

    @Test("one name in two kinds becomes two metrics")
    func kinds() {
        let registry = PrometheusRegistry()
        registry.makeCounter(label: "x", dimensions: []).increment(by: 1)
        registry.makeMeter(label: "x", dimensions: []).set(Int64(7))
        #expect(registry.text().contains("x_gauge 7"))
        #expect(registry.text().contains("# TYPE x counter\nx 1\n"))
    }

    @Test("label values beyond the limit share one series")
    func bounded() {
        let registry = PrometheusRegistry(seriesLimit: 2)
        for value in ["a", "b", "c", "d"] {
            registry.makeCounter(label: "c", dimensions: [("l", value)]).increment(by: 1)
        }
        #expect(registry.text().split(separator: "\n").count == 4)  // the type, two values, the overflow
        #expect(registry.text().contains(#"c{overflow="true"} 2"#))
    }

    @Test("the remaining kinds of swift-metrics are there")
    func others() {
        let registry = PrometheusRegistry()
        registry.makeFloatingPointCounter(label: "f", dimensions: []).increment(by: 0.5)
        registry.makeRecorder(label: "r", dimensions: [], aggregate: true).record(Int64(5))
        registry.makeRecorder(label: "last", dimensions: [], aggregate: false).record(4.5)
        #expect(registry.text().contains("f 0.5"))
        #expect(registry.text().contains(#"r_bucket{le="10"} 1"#))
        #expect(registry.text().contains("last 4.5"))
    }
}
