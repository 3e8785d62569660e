import Synchronization
import Tracing

/// A span that has ended.
struct EndedSpan: Sendable {
    var identity: SpanIdentity
    /// The parent's span; nil for the first span of a trace.
    var parent: String?
    var name: String
    var kind: SpanKind
    /// Nanoseconds since 1970.
    var begin: UInt64
    var end: UInt64
    var attributes = SpanAttributes()
    var events: [SpanEvent] = []
    var status: SpanStatus?
}

/// Makes spans for swift-distributed-tracing, and carries them between processes as W3C's `traceparent`.
///
/// A trace that another process has begun is recorded if that process says so; of others a share is.
struct ServiceTracer: Tracer {
    let exporter: SpanExporter
    /// The share of new traces that are recorded, from 0 to 1.
    let share: Double

    func startSpan<Instant: TracerInstant>(
        _ operationName: String, context: @autoclosure () -> InstrumentationContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant, function: String, file fileID: String, line: UInt
    ) -> ServiceSpan {
        var context = context()
        let parent = context.span
        let isSampled = parent?.isSampled ?? (share >= 1 || .random(in: 0..<1) < share)
        let identity = SpanIdentity(below: parent, isSampled: isSampled)
        context.span = identity
        return ServiceSpan(
            context, exporter,
            EndedSpan(
                identity: identity, parent: parent?.span, name: operationName, kind: kind,
                begin: instant().nanosecondsSinceEpoch, end: 0))
    }

    func forceFlush() {}

    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout InstrumentationContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {
        guard
            let found = SpanIdentity(
                traceparent: extractor.extract(key: RequestTrace.name, from: carrier))
        else { return }
        context.span = found
    }

    func inject<Carrier, Inject: Injector>(
        _ context: InstrumentationContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let span = context.span else { return }
        injector.inject(span.text, forKey: RequestTrace.name, into: &carrier)
    }
}

/// A span of this process. `state` guards everything that changes; it is nil once the span has ended.
final class ServiceSpan: Span {
    let context: InstrumentationContext
    private let exporter: SpanExporter
    private let state: Mutex<EndedSpan?>

    init(_ context: InstrumentationContext, _ exporter: SpanExporter, _ open: EndedSpan) {
        (self.context, self.exporter) = (context, exporter)
        state = Mutex(open)
    }

    var isRecording: Bool { state.withLock { $0?.identity.isSampled ?? false } }

    var operationName: String {
        get { state.withLock { $0?.name ?? "" } }
        set { state.withLock { $0?.name = newValue } }
    }

    var attributes: SpanAttributes {
        get { state.withLock { $0?.attributes ?? SpanAttributes() } }
        set { state.withLock { $0?.attributes = newValue } }
    }

    func setStatus(_ status: SpanStatus) { state.withLock { $0?.status = status } }

    func addEvent(_ event: SpanEvent) {
        state.withLock { open in
            guard let count = open?.events.count, count < Limits.spanEvents else { return }
            open?.events.append(event)
        }
    }

    /// Marks the span as failed. The error's kind and code are kept and not its text, which may quote data.
    func recordError<Instant: TracerInstant>(
        _ error: any Error, attributes: SpanAttributes, at instant: @autoclosure () -> Instant
    ) {
        let name = (error as? any HTTPReportable)?.publicCode ?? "\(type(of: error))"
        setStatus(SpanStatus(code: .error, message: name))
    }

    /// Links are not kept: none of our spans has one.
    func addLink(_ link: SpanLink) {}

    func end<Instant: TracerInstant>(at instant: @autoclosure () -> Instant) {
        let ended = state.withLock { open in
            defer { open = nil }
            return open
        }
        guard var ended, ended.identity.isSampled else { return }
        ended.end = max(ended.begin, instant().nanosecondsSinceEpoch)
        exporter.take(ended)
    }
}
