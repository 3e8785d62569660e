import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import Synchronization
import Tracing

/// Sends ended spans to a collector as OTLP/HTTP JSON, or writes them as lines of the log.
///
/// Spans wait in a queue of at most `Limits.queuedSpans`. A collector that is away costs spans, counted in
/// `mimeo_trace_spans_total`, and never a request: the oldest go. `queue` guards the queue.
final class SpanExporter: Sendable {
    /// The places that take spans.
    enum Target: Sendable, Equatable {
        case log
        /// The URL that takes OTLP/HTTP JSON.
        case collector(String)
    }

    private let target: Target
    private let resource: [(key: String, value: String)]
    private let logger: Logger
    private let queue = Mutex<[EndedSpan]>([])
    /// Wakes `run` when a batch is full.
    private let (full, fullness) = AsyncStream.makeStream(
        of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// - Parameter service: the process's name in the traces.
    init(_ target: Target, service: String, logger: Logger) {
        (self.target, self.logger) = (target, logger)
        resource = [
            ("service.name", service), ("service.version", BuildVersion.number),
            ("process.pid", "\(ProcessInfo.processInfo.processIdentifier)"),
        ]
    }

    /// The spans that wait, the oldest first.
    var waiting: [EndedSpan] { queue.withLock { $0 } }

    /// Takes a span that has ended. Never waits.
    func take(_ span: EndedSpan) {
        if target == .log { return write(span) }
        let (isFull, isDropped) = queue.withLock { queue in
            let isDropped = queue.count >= Limits.queuedSpans
            // Many at once, so that a full queue does not move with each span.
            if isDropped { queue.removeFirst(Limits.sentSpans) }
            queue.append(span)
            return (queue.count >= Limits.sentSpans, isDropped)
        }
        if isDropped { Self.count("dropped", Limits.sentSpans) }
        if isFull { fullness.yield() }
    }

    /// Sends what waits, every `Limits.spanInterval` or when a batch is full, until the task is cancelled;
    /// then once more.
    func run() async {
        while !Task.isCancelled {
            await withTaskGroup { group in
                group.addTask { try? await Task.sleep(for: Limits.spanInterval) }
                group.addTask { [full] in for await _ in full { return } }
                await group.next()
                group.cancelAll()
            }
            await send()
        }
        // The task is cancelled, and a request of it would be too.
        await Task { await send() }.value
    }

    /// Sends batches until nothing waits or the collector fails.
    func send() async {
        guard case .collector(let url) = target else { return }
        while true {
            let batch = queue.withLock { Array($0.prefix(Limits.sentSpans)) }
            guard !batch.isEmpty else { return }
            let body = OTLP.body(batch, resource: resource)
            var request = HTTPClientRequest(url: url)
            request.method = .POST
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(bytes: body))
            let status: UInt?
            do {
                let response = try await Self.client.execute(
                    request, timeout: TimeAmount(Limits.spanTimeout))
                status = response.status.code
                _ = try? await response.body.collect(upTo: Limits.webhookAnswerBytes)
            } catch {
                status = nil
            }
            switch status {
            case .some(200...299):
                remove(batch)
                Self.count("sent", batch.count)
            case .some(400...499) where status != 429:
                // It will not like them better a second time.
                remove(batch)
                Self.count("refused", batch.count)
                logger.warning("the collector refuses spans", metadata: ["status": "\(status ?? 0)"])
            default:
                logger.debug("the collector of spans does not answer; they wait")
                return
            }
        }
    }

    /// Removes what was sent, unless it was dropped meanwhile.
    private func remove(_ batch: [EndedSpan]) {
        let sent = Set(batch.map(\.identity.span))
        queue.withLock { $0.removeAll { sent.contains($0.identity.span) } }
    }

    private func write(_ span: EndedSpan) {
        var fields: Logger.Metadata = [
            "trace": "\(span.identity.trace)", "span": "\(span.identity.span)", "name": "\(span.name)",
            "kind": "\(span.kind)", "duration_us": "\((span.end - span.begin) / 1_000)",
        ]
        if let parent = span.parent { fields["parent"] = "\(parent)" }
        if span.status?.code == .error { fields["error"] = "\(span.status?.message ?? "true")" }
        span.attributes.forEach { key, value in fields[key] = "\(OTLP.text(value))" }
        logger.info("span", metadata: fields)
        Self.count("sent", 1)
    }

    private static func count(_ outcome: String, _ number: Int) {
        Measured.count("mimeo_trace_spans_total", [("outcome", outcome)], by: Int64(number))
    }

    /// One client for the process, never shut down. It makes no spans of its own.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.redirectConfiguration = .disallow
        configuration.tracing.tracer = nil
        // It is tried again with the next batch.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.timeout.connect = .seconds(5)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()
}
