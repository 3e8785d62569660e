import HTTPTypes
import Metrics
import Synchronization

/// Counts the requests of a host, under the present and the former names. The series of each kind of request
/// are looked up once: a request costs one lookup and four additions. The lock guards the kinds.
final class RequestMeter: Sendable {
    private struct Kind: Hashable {
        var method: String
        var route: String
        var status: Int
    }

    private struct Series: Sendable {
        var counters: [any CounterHandler]
        var timers: [any TimerHandler]
    }

    /// The service of each route, by the route as the router names it.
    private let owners: [String: String]
    private let kinds = Mutex<[Kind: Series]>([:])

    init(owners: [String: String] = [:]) { self.owners = owners }

    private static let methods: Set<HTTPRequest.Method> = [
        .get, .head, .post, .put, .patch, .delete, .options,
    ]

    /// The service that a route belongs to; `host` for those that every process has.
    func service(of route: String) -> String { owners[route] ?? "host" }

    func note(_ method: HTTPRequest.Method, _ route: String, _ status: Int, _ duration: Duration) {
        let kind = Kind(
            method: Self.methods.contains(method) ? method.rawValue : "other", route: route, status: status)
        let series = kinds.withLock { kinds in
            if let known = kinds[kind] { return known }
            let made = make(kind)
            // The registry bounds the series themselves.
            if kinds.count < Limits.requestKinds { kinds[kind] = made }
            return made
        }
        let nanoseconds = duration.nanoseconds
        for counter in series.counters { counter.increment(by: 1) }
        for timer in series.timers { timer.recordNanoseconds(nanoseconds) }
    }

    private func make(_ kind: Kind) -> Series {
        let registry = PrometheusRegistry.shared
        let plain = [("method", kind.method), ("route", kind.route)]
        let owned = plain + [("service", service(of: kind.route))]
        return Series(
            counters: [
                registry.makeCounter(
                    label: "mimeo_http_requests_total",
                    dimensions: owned + [("status", "\(kind.status / 100)xx")]),
                registry.makeCounter(
                    label: "http_requests_total", dimensions: plain + [("status", "\(kind.status)")]),
            ],
            timers: [
                registry.makeTimer(label: "mimeo_http_request_duration_seconds", dimensions: owned),
                registry.makeTimer(label: "http_request_duration_seconds", dimensions: plain),
            ])
    }
}
