import Hummingbird
import Logging
import Synchronization
import Testing

@testable import ServiceKit

@Suite("Forwarding fields and --behind-proxy")
struct ForwardingWatchTests {
    /// Keeps the lines of a log.
    private struct Recorder: LogHandler {
        let lines: Box<[String]>
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let line = "\(event.level) \(event.message) \(event.metadata ?? [:])"
            lines.change { $0.append(line) }
        }
    }

    private let lines = Box<[String]>([])
    private let time = Box(ContinuousClock.now)

    private func watch(_ trusts: Bool) -> ForwardingWatch {
        let (lines, time) = (lines, time)
        return ForwardingWatch(
            trustsProxy: trusts, logger: Logger(label: "test") { _ in Recorder(lines: lines) },
            now: { time.value })
    }

    private func serving(
        _ watch: ForwardingWatch, _ body: @escaping @Sendable (ListenAddress) async throws -> Void
    ) async throws {
        let part = TestPart(mounting: { mount in
            mount.on(.get, "/who") { request, context in
                watch.expected(of: request, context)
                return Response(status: .ok)
            }
        })
        let quiet = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }
        try await ServiceHost(parts: [part], listen: .anyLoopbackPort, forwarding: watch, logger: quiet)
            .run(while: body)
    }

    @Test("a field that is not believed is told once an hour, and a request without one never")
    func distrusted() async throws {
        try await serving(watch(false)) { [lines, time] address in
            _ = try await ask(address, "/who")
            #expect(lines.value.isEmpty)
            for field in ["X-Forwarded-For", "Forwarded", "X-Real-IP"] {
                for _ in 0..<3 { _ = try await ask(address, "/who", headers: [field: "10.0.0.1"]) }
                #expect(lines.value.count == 1)
                let line = lines.value.last?.lowercased() ?? ""
                #expect(line.hasPrefix("warning"))
                for word in ["--behind-proxy", field.lowercased(), "127.0.0.1"] {
                    #expect(line.contains(word), "\(line)")
                }
                lines.change { $0 = [] }
                time.change { $0 += .seconds(3_601) }
            }
        }
    }

    @Test("behind a trusted proxy a request whose client it does not name is told once an hour")
    func missed() async throws {
        try await serving(watch(true)) { [lines, time] address in
            _ = try await ask(address, "/who", headers: ["X-Forwarded-For": "10.0.0.1"])
            _ = try await ask(address, "/health")
            #expect(lines.value.isEmpty)
            for hour in 1...2 {
                for _ in 0..<3 { _ = try await ask(address, "/who", headers: ["Forwarded": "for=10.0.0.1"]) }
                #expect(lines.value.count == hour)
                time.change { $0 += .seconds(3_601) }
            }
        }
    }
}
