import Logging
import Synchronization
import Tracing

/// The spans of this process, made by `withSpan` of swift-distributed-tracing. Without `--traces` that finds
/// a tracer that does nothing.
///
/// A process begins once. Names of spans and attributes are few: never a user, a peer, a document, a
/// statement or a query of a URL.
public enum Traces {
    /// The wishes about traces.
    public struct Options: Sendable, Equatable {
        /// `log`, or the URL of a collector.
        public let target: String
        /// The share of new traces that are recorded, in percent.
        public let percent: UInt32
        /// The share unless one is given.
        public static let usualPercent: UInt32 = 100

        /// - Throws: `SRV-0104`.
        init(target: String, percent: UInt32) throws(ServiceError) {
            (self.target, self.percent) = (target, percent)
            let isURL = target.hasPrefix("http://") || target.hasPrefix("https://")
            let host = target.drop { $0 != ":" }.dropFirst(3)
            guard target == "log" || isURL && !host.isEmpty && host.first != "/", !target.contains("@") else {
                throw ServiceError(
                    .configurationInvalid,
                    "--traces is 'log', or the URL of a collector like http://127.0.0.1:4318, without a user")
            }
            guard percent <= 100 else {
                throw ServiceError(.configurationInvalid, "--trace-percent is a number from 0 to 100")
            }
        }

        /// The target with the path that collectors listen on, unless the URL has one.
        var place: SpanExporter.Target {
            guard target != "log" else { return .log }
            let origin = target.hasSuffix("/") ? String(target.dropLast()) : target
            let hasPath = origin.drop { $0 != ":" }.dropFirst(3).contains("/")
            return .collector(hasPath ? origin : "\(origin)/v1/traces")
        }
    }

    private struct State {
        var tracer: ServiceTracer?
        var isSending = false
    }

    private static let on = Atomic(false)
    private static let state = Mutex(State())

    /// True if spans are made.
    static var isOn: Bool { on.load(ordering: .relaxed) }

    /// Begins to make spans. A second call changes nothing.
    /// - Parameter service: the process's name in the traces.
    static func begin(_ options: Options, service: String, logger: Logger) {
        let exporter = SpanExporter(options.place, service: service, logger: logger)
        let tracer = ServiceTracer(exporter: exporter, share: Double(options.percent) / 100)
        let isFirst = state.withLock { state in
            guard state.tracer == nil else { return false }
            state.tracer = tracer
            return true
        }
        guard isFirst else { return }
        // Clients of other libraries look there.
        InstrumentationSystem.bootstrap(tracer)
        on.store(true, ordering: .relaxed)
    }

    /// The loop that sends the spans, for the first caller; nil for others, and while traces are off.
    static func takeSending() -> (@Sendable () async throws -> Void)? {
        let exporter = state.withLock { state -> SpanExporter? in
            guard !state.isSending, let tracer = state.tracer else { return nil }
            state.isSending = true
            return tracer.exporter
        }
        guard let exporter else { return nil }
        return { await exporter.run() }
    }

    /// Begins a span below the open one, or below `parent`; nil while traces are off.
    static func open(_ name: String, _ kind: SpanKind, below parent: SpanIdentity? = nil) -> ServiceSpan? {
        guard isOn, let tracer = state.withLock({ $0.tracer }) else { return nil }
        var context = InstrumentationContext.current ?? .topLevel
        if let parent { context.span = parent }
        return tracer.startSpan(
            name, context: context, ofKind: kind, at: DefaultTracerClock.now, function: #function,
            file: #fileID, line: #line)
    }
}
