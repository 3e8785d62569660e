import Metrics
import Synchronization

/// The process's metrics, in memory, as swift-metrics' factory and as Prometheus text.
///
/// Counters become counters, meters and non-aggregating recorders gauges, timers and aggregating recorders
/// histograms (timers in seconds). `Limits.seriesPerMetric` bounds a metric's series; further ones share one
/// series with the label `overflow="true"`. `families` guards all registration; each series guards its own
/// numbers.
public final class PrometheusRegistry: MetricsFactory, Sendable {
    /// The registry of this process, installed as swift-metrics' factory on first use.
    public static let shared: PrometheusRegistry = {
        let registry = PrometheusRegistry()
        MetricsSystem.bootstrap(registry)
        return registry
    }()

    enum Kind: String, Sendable { case counter, gauge, histogram }

    struct Family: Sendable {
        var kind: Kind
        var series: [[Label]: any Series] = [:]
    }

    struct Label: Hashable, Sendable {
        var name: String
        var value: String
    }

    private let families = Mutex<[String: Family]>([:])
    private let seriesLimit: Int

    /// A registry that is not installed as factory.
    public init(seriesLimit: Int = Limits.seriesPerMetric) { self.seriesLimit = seriesLimit }

    func series<S: Series>(_ label: String, _ dimensions: [(String, String)], _ kind: Kind, _ make: () -> S)
        -> S
    {
        var name = MetricText.name(label)
        let labels = dimensions.map { Label(name: MetricText.labelName($0.0), value: $0.1) }.sorted {
            $0.name < $1.name
        }
        return families.withLock { families in
            // Two kinds cannot share a name in the text, so the later one gets its kind as suffix.
            if let family = families[name], family.kind != kind { name += "_\(kind.rawValue)" }
            var family = families[name] ?? Family(kind: kind)
            let isFull = family.series.count >= seriesLimit && family.series[labels] == nil
            let key = isFull ? [Label(name: "overflow", value: "true")] : labels
            if let found = family.series[key] as? S { return found }
            let made = make()
            family.series[key] = made
            families[name] = family
            return made
        }
    }

    /// Sets all series of a gauge; others of its name end.
    func replace(_ name: String, _ series: [(labels: [(String, String)], value: Double)]) {
        families.withLock { families in
            var family = Family(kind: .gauge)
            for (dimensions, value) in series.prefix(seriesLimit) {
                let gauge = GaugeSeries()
                gauge.set(value)
                let labels = dimensions.map { Label(name: MetricText.labelName($0.0), value: $0.1) }
                family.series[labels.sorted { $0.name < $1.name }] = gauge
            }
            families[name] = family
        }
    }

    /// Sets a counter that somebody else counts, such as the operating system.
    func setCounter(_ name: String, to value: Double) {
        let counter = series(name, [], .counter) { FloatingCounterSeries() }
        counter.increment(by: value - counter.reading.value)
    }

    /// The Prometheus text exposition format, version 0.0.4.
    public func text() -> String {
        let families = families.withLock { $0 }
        var text = ""
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            if let row = MetricRow.byName[name] {
                text += "# HELP \(name) \(row.help.replacing("\\", with: "\\\\"))\n"
            }
            text += "# TYPE \(name) \(family.kind.rawValue)\n"
            let series = family.series.sorted { MetricText.labels($0.key) < MetricText.labels($1.key) }
            for (labels, series) in series { series.append(to: &text, name: name, labels: labels) }
        }
        return text
    }

    /// Each metric's kind and the sum of its series' readings, by name.
    func readings() -> [String: (kind: Kind, reading: MetricReading)] {
        families.withLock { $0 }.mapValues { family in
            (family.kind, family.series.values.reduce(into: MetricReading(value: 0)) { $0.add($1.reading) })
        }
    }

    // MARK: MetricsFactory

    /// A counter.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, dimensions, .counter) { CounterSeries() }
    }

    /// A floating-point counter.
    public func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        series(label, dimensions, .counter) { FloatingCounterSeries() }
    }

    /// A gauge.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions, .gauge) { GaugeSeries() }
    }

    /// A histogram, or a gauge when it does not aggregate.
    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        guard aggregate else { return series(label, dimensions, .gauge) { GaugeSeries() } }
        return series(label, dimensions, .histogram) { HistogramSeries(bounds: HistogramSeries.valueBounds) }
    }

    /// A histogram in seconds.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions, .histogram) { HistogramSeries(bounds: HistogramSeries.secondBounds) }
    }

    /// Does nothing: series live as long as the process, since a scrape may come after the last use.
    public func destroyCounter(_ handler: any CounterHandler) {}
    /// See `destroyCounter`.
    public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    /// See `destroyCounter`.
    public func destroyMeter(_ handler: any MeterHandler) {}
    /// See `destroyCounter`.
    public func destroyRecorder(_ handler: any RecorderHandler) {}
    /// See `destroyCounter`.
    public func destroyTimer(_ handler: any TimerHandler) {}
}
