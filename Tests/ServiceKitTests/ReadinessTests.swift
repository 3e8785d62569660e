import CRDT
import Foundation
import Logging
import Synchronization
import Testing

@testable import ServiceKit

/// A clock that a test moves.
private final class Hand: Sendable {
    private let at = Mutex(ContinuousClock.now)
    var now: ContinuousClock.Instant { at.withLock { $0 } }
    func move(_ duration: Duration) { at.withLock { $0 += duration } }
}

@Suite("Readiness and lag")
struct ReadinessTests {
    private struct Slow: ServicePart {
        let name = "slow"
        let reasons: [Unreadiness]
        var hasFailed = true
        func mount(on mount: inout ServiceMount) {}
        func health() async -> HealthCheck { hasFailed ? .failing("one of many") : .ok }
        func readiness() async -> [Unreadiness] { reasons }
    }

    @Test("a part that is not ready makes 503 with its code, and the process is alive all the same")
    func reasons() async throws {
        let part = Slow(reasons: [Unreadiness("slow", .foldBehind, "40 s")])
        try await serving([part, TestPart()]) { address async throws in
            let ready = try await ask(address, "/health/ready")
            #expect(ready.status == 503)
            let reason = #"{"part":"slow","code":"SRV-0702","message":"40 s"}"#
            #expect(ready.body == #"{"status":"not ready","reasons":[\#(reason)]}"#)
            #expect(ready.headers["cache-control"] == "no-store")
            #expect(try await ask(address, "/health/live").status == 200)
            // The registry is the process's: the host of another test may set the gauge in between.
            var metrics = ""
            for _ in 0..<100 where !metrics.contains("mimeo_ready 0") {
                metrics = try await ask(address, "/metrics").body
            }
            #expect(metrics.contains("mimeo_ready 0"))
            #expect(metrics.contains("process_open_fds "))
        }
    }

    @Test("what fails for everybody alike fails health and not readiness")
    func apart() async throws {
        try await serving([Slow(reasons: [])]) { address async throws in
            #expect(try await ask(address, "/health").status == 503)
            let ready = try await ask(address, "/health/ready")
            #expect(ready.status == 200)
            #expect(ready.body == #"{"status":"ready","reasons":[]}"#)
        }
    }

    @Test("the lag is the age of the oldest missing operation, and zero while none is missing")
    func ages() {
        let clock = Hand()
        let watch = LagWatch(now: { clock.now })
        watch.note("a", head: 5, folded: 5)
        clock.move(.seconds(3_600))
        #expect(watch.readings() == [.init(database: "a", operations: 0, age: .zero)])
        watch.note("a", head: 8, folded: 5)
        clock.move(.seconds(7))
        watch.note("a", head: 9, folded: 7)
        clock.move(.seconds(2))
        #expect(watch.readings() == [.init(database: "a", operations: 2, age: .seconds(9))])
        // Caught up with the first head: what came later is younger.
        watch.note("a", head: 9, folded: 8)
        #expect(watch.readings() == [.init(database: "a", operations: 1, age: .seconds(2))])
        watch.note("a", head: 9, folded: 9)
        clock.move(.seconds(60))
        #expect(watch.readings().map(\.age) == [.zero])
        watch.keep(only: [])
        #expect(watch.readings() == [])
    }

    @Test("a log that goes on while the fold stands is remembered within bounds, and its age is right")
    func bounded() {
        let clock = Hand()
        let watch = LagWatch(now: { clock.now })
        for head in 1...UInt64(10 * Limits.watchedHeads) {
            watch.note("a", head: Offset(head), folded: 0)
            clock.move(.seconds(1))
        }
        #expect(watch.readings().first?.age == .seconds(10 * Limits.watchedHeads))
    }

    @Test("one database of several that is behind or broken leaves the instance ready; all of them do not")
    func several() {
        let clock = Hand()
        let watch = LagWatch(now: { clock.now })
        watch.note("a", head: 1, folded: 0)
        watch.note("b", head: 1, folded: 1)
        clock.move(.seconds(31))
        #expect(Unreadiness.ofFolds("p", failures: [true, false], lag: watch) == [])
        watch.keep(only: ["a"])
        #expect(Unreadiness.ofFolds("p", failures: [false], lag: watch).map(\.code) == ["SRV-0702"])
        #expect(Unreadiness.ofFolds("p", failures: [true, true], lag: watch).map(\.code) == ["SRV-0701"])
        #expect(Unreadiness.ofFolds("p", failures: [], lag: LagWatch()) == [])
    }

    @Test("series of a replaced gauge end, and databases beyond the bound are one series")
    func gauges() {
        let many = (0..<Limits.watchedDatabases + 5).map { number in
            (DatabaseID("d\(String(1_000 + number))"), Double(number))
        }
        Measured.replace("test_lag_seconds", byDatabase: many)
        #expect(PrometheusRegistry.shared.text().contains(#"test_lag_seconds{database="other"} 104"#))
        Measured.replace("test_lag_seconds", byDatabase: [(DatabaseID("d1000"), 0)])
        let lines = PrometheusRegistry.shared.text().split(separator: "\n").filter {
            $0.hasPrefix("test_lag_seconds")
        }
        #expect(lines == [#"test_lag_seconds{database="d1000"} 0"#])
    }
}
