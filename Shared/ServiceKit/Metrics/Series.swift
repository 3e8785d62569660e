import Metrics
import Synchronization

/// One line of the text, or the lines of one histogram.
protocol Series: AnyObject, Sendable {
    func append(to text: inout String, name: String, labels: [PrometheusRegistry.Label])
    /// The value now; of a histogram the sum and the count of its records.
    var reading: MetricReading { get }
}

final class CounterSeries: Series, CounterHandler {
    private let value = Atomic<Int64>(0)

    func increment(by amount: Int64) { value.wrappingAdd(amount, ordering: .relaxed) }

    func reset() { value.store(0, ordering: .relaxed) }

    var reading: MetricReading { MetricReading(value: Double(value.load(ordering: .relaxed))) }

    func append(to text: inout String, name: String, labels: [PrometheusRegistry.Label]) {
        text += "\(name)\(MetricText.labels(labels)) \(value.load(ordering: .relaxed))\n"
    }
}

final class FloatingCounterSeries: Series, FloatingPointCounterHandler {
    private let value = Mutex(0.0)

    func increment(by amount: Double) {
        // A counter never falls.
        if amount > 0 { value.withLock { $0 += amount } }
    }

    func reset() { value.withLock { $0 = 0 } }

    var reading: MetricReading { MetricReading(value: value.withLock { $0 }) }

    func append(to text: inout String, name: String, labels: [PrometheusRegistry.Label]) {
        text += "\(name)\(MetricText.labels(labels)) \(MetricText.number(value.withLock { $0 }))\n"
    }
}

final class GaugeSeries: Series, MeterHandler, RecorderHandler {
    private let value = Mutex(0.0)

    func set(_ new: Int64) { value.withLock { $0 = Double(new) } }

    func set(_ new: Double) { value.withLock { $0 = new } }

    func increment(by amount: Double) { value.withLock { $0 += amount } }

    func decrement(by amount: Double) { value.withLock { $0 -= amount } }

    func record(_ new: Int64) { set(new) }

    func record(_ new: Double) { set(new) }

    var reading: MetricReading { MetricReading(value: value.withLock { $0 }) }

    func append(to text: inout String, name: String, labels: [PrometheusRegistry.Label]) {
        text += "\(name)\(MetricText.labels(labels)) \(MetricText.number(value.withLock { $0 }))\n"
    }
}

final class HistogramSeries: Series, TimerHandler, RecorderHandler {
    /// Bounds in seconds, from a lookup to a long poll.
    static let secondBounds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]
    /// Bounds for sizes and counts: powers of ten.
    static let valueBounds: [Double] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000]

    private struct Numbers {
        var buckets: [Int64]
        var sum = 0.0
        var count: Int64 = 0
    }

    private let bounds: [Double]
    private let numbers: Mutex<Numbers>

    init(bounds: [Double]) {
        self.bounds = bounds
        numbers = Mutex(Numbers(buckets: Array(repeating: 0, count: bounds.count)))
    }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    var reading: MetricReading {
        numbers.withLock { MetricReading(value: $0.sum, count: Double($0.count)) }
    }

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        let bucket = bounds.firstIndex { value <= $0 }
        numbers.withLock { numbers in
            if let bucket { numbers.buckets[bucket] += 1 }
            numbers.sum += value
            numbers.count += 1
        }
    }

    func append(to text: inout String, name: String, labels: [PrometheusRegistry.Label]) {
        let numbers = numbers.withLock { $0 }
        var total: Int64 = 0
        for (bound, count) in zip(bounds, numbers.buckets) {
            total += count
            let bucket = labels + [PrometheusRegistry.Label(name: "le", value: MetricText.number(bound))]
            text += "\(name)_bucket\(MetricText.labels(bucket)) \(total)\n"
        }
        let infinite = labels + [PrometheusRegistry.Label(name: "le", value: "+Inf")]
        text += "\(name)_bucket\(MetricText.labels(infinite)) \(numbers.count)\n"
        text += "\(name)_sum\(MetricText.labels(labels)) \(MetricText.number(numbers.sum))\n"
        text += "\(name)_count\(MetricText.labels(labels)) \(numbers.count)\n"
    }
}

/// Rules of the text format for names, labels and numbers.
enum MetricText {
    /// A metric's name: letters, digits, `_` and `:`; any other character becomes `_`.
    static func name(_ text: String) -> String { sanitized(text, alsoColon: true) }

    /// A label's name: letters, digits and `_`; any other character becomes `_`.
    static func labelName(_ text: String) -> String { sanitized(text, alsoColon: false) }

    private static func sanitized(_ text: String, alsoColon: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            let isKept =
                ("a"..."z").contains(scalar) || ("A"..."Z").contains(scalar) || scalar == "_"
                || (alsoColon && scalar == ":") || (("0"..."9").contains(scalar) && !result.isEmpty)
            result.unicodeScalars.append(isKept ? scalar : "_")
        }
        return result.isEmpty ? "_" : result
    }

    static func labels(_ labels: [PrometheusRegistry.Label]) -> String {
        guard !labels.isEmpty else { return "" }
        return "{" + labels.map { "\($0.name)=\"\(escaped($0.value))\"" }.joined(separator: ",") + "}"
    }

    private static func escaped(_ text: String) -> String {
        var result = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }

    static func number(_ value: Double) -> String {
        if value == value.rounded(), abs(value) < 1e15 { return "\(Int64(value))" }
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return "\(value)"
    }
}
