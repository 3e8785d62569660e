import CRDT

/// Reports values of the metrics in `MetricRow.all`. A call takes less than a microsecond.
public enum Measured {
    /// A label of a series: its name and value.
    public typealias Label = (String, String)

    /// Adds to a counter.
    public static func count(_ name: String, _ labels: [Label] = [], by amount: Int64 = 1) {
        PrometheusRegistry.shared.makeCounter(label: name, dimensions: labels).increment(by: amount)
    }

    /// Adds to a former counter and to the one that stands for it.
    public static func count(_ name: String, formerly former: String, by amount: Int64 = 1) {
        count(name, by: amount)
        count(former, by: amount)
    }

    /// Lets a counter show zero from the start: an alert on its increase misses a series that begins with
    /// one.
    public static func begin(_ name: String, formerly former: String) {
        count(name, formerly: former, by: 0)
    }

    /// Adds a time to a histogram.
    public static func time(_ name: String, _ labels: [Label], _ duration: Duration) {
        PrometheusRegistry.shared.makeTimer(label: name, dimensions: labels)
            .recordNanoseconds(duration.nanoseconds)
    }

    /// Sets a gauge without labels.
    public static func set(_ name: String, _ value: Double) { set(name, [], value) }

    /// Sets a gauge.
    public static func set(_ name: String, _ labels: [Label], _ value: Double) {
        PrometheusRegistry.shared.makeMeter(label: name, dimensions: labels).set(value)
    }

    /// Sets all series of a gauge: those that are not given end, so that none keeps its last value for ever.
    public static func replace(_ name: String, _ series: [(labels: [Label], value: Double)]) {
        PrometheusRegistry.shared.replace(name, series)
    }

    /// Sets a gauge for each database; beyond the first `Limits.watchedDatabases` the greatest is `other`.
    public static func replace(_ name: String, byDatabase readings: [(DatabaseID, Double)]) {
        let sorted = readings.sorted { $0.0 < $1.0 }
        var series = sorted.prefix(Limits.watchedDatabases).map { id, value in
            (labels: [("database", id.text)], value: value)
        }
        if let most = sorted.dropFirst(Limits.watchedDatabases).map(\.1).max() {
            series.append((labels: [("database", "other")], value: most))
        }
        replace(name, series)
    }
}

extension Duration {
    /// Whole nanoseconds; for durations below 292 years.
    var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}
