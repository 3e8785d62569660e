import CRDT
import Foundation
import Machine
import Synchronization

/// Reading of a metric at one moment: its value, and for a histogram the number of its records.
struct MetricReading: Sendable, Equatable {
    /// The value; of a histogram the sum of its records.
    var value: Double
    /// Records of a histogram; nil for other kinds.
    var count: Double?

    mutating func add(_ other: MetricReading) {
        value += other.value
        if let more = other.count { count = (count ?? 0) + more }
    }
}

/// Readings of the process's metrics over the last hour and the last day, for plots without Prometheus.
///
/// Each metric is the sum of its series. Two rings per metric bound the memory: one reading every 5 s for an
/// hour, one a minute for a day. The lock guards the rings.
public final class MetricHistory: Sendable {
    private struct Point: Sendable {
        var milliseconds: Int64
        var reading: MetricReading
    }

    private struct Rings: Sendable {
        var kind: String
        var fine: [Point] = []
        var coarse: [Point] = []
    }

    private struct State: Sendable {
        var rings: [String: Rings] = [:]
        var records = 0
    }

    private let state = Mutex(State())
    private let registry: PrometheusRegistry

    /// The history of a registry, empty.
    init(registry: PrometheusRegistry) { self.registry = registry }

    /// The history of this process's metrics, empty.
    public convenience init() { self.init(registry: .shared) }

    /// Reads all metrics once.
    public func record(milliseconds: Int64) {
        var readings = registry.readings()
        readings["process_resident_memory_bytes"] =
            ProcessFigures.residentBytes().map { (.gauge, MetricReading(value: $0)) }
        state.withLock { state in
            state.records += 1
            for (name, found) in readings {
                guard state.rings[name] != nil || state.rings.count < Limits.metricNames else { continue }
                let point = Point(milliseconds: milliseconds, reading: found.reading)
                Self.add(
                    point, to: &state.rings[name, default: Rings(kind: found.kind.rawValue)].fine,
                    keeping: Limits.metricPoints)
                guard state.records % Limits.metricCoarseness == 1 else { continue }
                Self.add(
                    point, to: &state.rings[name, default: Rings(kind: found.kind.rawValue)].coarse,
                    keeping: Limits.metricCoarsePoints)
            }
        }
    }

    /// The readings after a time, as JSON: per metric its name, kind and points `[milliseconds, value]`, of a
    /// histogram `[milliseconds, sum, count]`.
    /// - Parameters:
    ///   - names: the metrics; none for all.
    ///   - isCoarse: one reading a minute over the last day, instead of one every 5 s over the last hour.
    public func value(names: [String], since milliseconds: Int64, isCoarse: Bool) -> Value {
        let rings = state.withLock { $0.rings }
        let wanted = rings.filter { names.isEmpty || names.contains($0.key) }.sorted { $0.key < $1.key }
        return .array(
            wanted.map { name, rings in
                let points = (isCoarse ? rings.coarse : rings.fine).filter { $0.milliseconds > milliseconds }
                return [
                    "name": .string(name), "kind": .string(rings.kind),
                    "points": .array(points.map(Self.value)),
                ]
            })
    }

    private static func value(_ point: Point) -> Value {
        let numbers: [Value] = [.int(point.milliseconds), .double(point.reading.value)]
        return .array(numbers + (point.reading.count.map { [.double($0)] } ?? []))
    }

    private static func add(_ point: Point, to ring: inout [Point], keeping most: Int) {
        // Moves the rest once in many additions, and not at each.
        if ring.count >= most + most / 4 { ring.removeFirst(ring.count - most + 1) }
        ring.append(point)
    }
}
