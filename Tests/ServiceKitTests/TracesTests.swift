import Foundation
import Hummingbird
import Logging
import NIOCore
import Synchronization
import Testing
import Tracing

@testable import ServiceKit

@Suite("Traces", .timeLimit(.minutes(1)))
struct TracesTests {
    private static let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    private struct Headers: Extractor, Injector {
        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
        func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) {
            carrier[key] = value
        }
    }

    private static func exporter(_ target: SpanExporter.Target) -> SpanExporter {
        SpanExporter(
            target, service: "test", logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        )
    }

    private static func end(_ name: String, _ exporter: SpanExporter) {
        ServiceTracer(exporter: exporter, share: 1).startSpan(name, context: .topLevel, ofKind: .internal)
            .end()
    }

    @Test("a span continues the caller's trace, is recorded if the caller says so, and hands itself on")
    func context() throws {
        let exporter = Self.exporter(.collector("http://127.0.0.1:9"))
        let tracer = ServiceTracer(exporter: exporter, share: 0)
        var context = InstrumentationContext.topLevel
        tracer.extract(["traceparent": Self.parent], into: &context, using: Headers())
        let outer = tracer.startSpan("outer", context: context, ofKind: .server)
        let inner = tracer.startSpan("inner", context: outer.context, ofKind: .internal)
        var headers: [String: String] = [:]
        tracer.inject(inner.context, into: &headers, using: Headers())
        let told = try #require(SpanIdentity(traceparent: headers["traceparent"]))
        #expect(told.trace == "4bf92f3577b34da6a3ce929d0e0e4736")
        #expect(told.isSampled && told == inner.context.span)
        inner.end()
        inner.end()
        outer.end()
        let spans = exporter.waiting
        #expect(spans.map(\.name) == ["inner", "outer"])
        #expect(spans.map(\.parent) == [outer.context.span?.span, "00f067aa0ba902b7"])
        // The share is 0, and this caller does not want a record.
        tracer.startSpan("new", context: .topLevel, ofKind: .server).end()
        var quiet = InstrumentationContext.topLevel
        tracer.extract(
            ["traceparent": Self.parent.dropLast(2) + "00"], into: &quiet, using: Headers())
        ServiceTracer(exporter: exporter, share: 1).startSpan("quiet", context: quiet, ofKind: .server).end()
        #expect(exporter.waiting.count == 2)
    }

    @Test("the body is OTLP's JSON: ids in hexadecimal, 64-bit numbers as texts, an error by its code alone")
    func form() throws {
        let exporter = Self.exporter(.collector("http://127.0.0.1:9"))
        let tracer = ServiceTracer(exporter: exporter, share: 1)
        let span = tracer.startSpan("GET /health", context: .topLevel, ofKind: .server)
        span.updateAttributes {
            $0.set("http.route", value: .string("/health"))
            $0.set("http.response.status_code", value: .int64(503))
            $0.set("flag", value: .bool(true))
        }
        span.recordError(ServiceError(.badRequest, "the secret is s3cret"))
        span.end()
        let body = OTLP.body(exporter.waiting, resource: [("service.name", "test")])
        let text = String(decoding: body, as: UTF8.self)
        #expect(!text.contains("s3cret"))
        let parts = try JSONDecoder().decode(Body.self, from: Data(body))
        let resource = try #require(parts.resourceSpans.first)
        #expect(resource.resource.attributes.first?.value.stringValue == "test")
        let told = try #require(resource.scopeSpans.first?.spans.first)
        #expect((told.name, told.kind) == ("GET /health", 2))
        #expect(told.traceId.count == 32 && told.spanId.count == 16 && told.parentSpanId == nil)
        #expect(try #require(UInt64(told.endTimeUnixNano)) >= #require(UInt64(told.startTimeUnixNano)))
        let values = Dictionary(uniqueKeysWithValues: told.attributes.map { ($0.key, $0.value) })
        #expect(values["http.route"]?.stringValue == "/health")
        #expect(values["http.response.status_code"]?.intValue == "503")
        #expect(values["flag"]?.boolValue == true)
        #expect((told.status?.code, told.status?.message) == (2, "SRV-0400"))
    }

    private struct Body: Decodable {
        struct Value: Decodable { var stringValue, intValue: String?, boolValue: Bool? }
        struct Attribute: Decodable { var key: String, value: Value }
        struct Status: Decodable { var code: Int, message: String? }
        struct Span: Decodable {
            var traceId, spanId, name, startTimeUnixNano, endTimeUnixNano: String
            var parentSpanId: String?
            var kind: Int
            var attributes: [Attribute]
            var status: Status?
        }
        struct Scope: Decodable { var spans: [Span] }
        struct Named: Decodable { var attributes: [Attribute] }
        struct Resource: Decodable { var resource: Named, scopeSpans: [Scope] }
        var resourceSpans: [Resource]
    }

    @Test("spans wait for a collector that is away, within a bound; the oldest go")
    func bound() async {
        let exporter = Self.exporter(.collector("http://127.0.0.1:9/v1/traces"))
        for number in 0..<Limits.queuedSpans { Self.end("\(number)", exporter) }
        await exporter.send()
        #expect(exporter.waiting.count == Limits.queuedSpans)
        Self.end("newest", exporter)
        let left = exporter.waiting.map(\.name)
        #expect(left.count == Limits.queuedSpans - Limits.sentSpans + 1)
        #expect((left.first, left.last) == ("\(Limits.sentSpans)", "newest"))
    }

    @Test("a collector gets batches, again what it failed to take, and never again what it refuses")
    func sending() async throws {
        let answers = Mutex<[HTTPResponse.Status]>([.ok, .ok, .serviceUnavailable, .ok, .badRequest])
        let taken = Mutex<[Int]>([])
        try await Self.collecting { request in
            let body = try await request.body.collect(upTo: 10_000_000)
            let status = answers.withLock { $0.isEmpty ? .ok : $0.removeFirst() }
            let count = try JSONDecoder().decode(Body.self, from: Data(body.readableBytesView))
                .resourceSpans[0].scopeSpans[0].spans.count
            taken.withLock { $0.append(count) }
            return Response(status: status)
        } body: { url in
            let exporter = Self.exporter(.collector("\(url)/v1/traces"))
            for number in 0..<(Limits.sentSpans + 3) { Self.end("\(number)", exporter) }
            await exporter.send()
            #expect(exporter.waiting.isEmpty)
            Self.end("late", exporter)
            await exporter.send()
            #expect(exporter.waiting.count == 1)
            await exporter.send()
            #expect(exporter.waiting.isEmpty)
            Self.end("refused", exporter)
            await exporter.send()
            #expect(exporter.waiting.isEmpty)
        }
        #expect(taken.withLock { $0 } == [Limits.sentSpans, 3, 1, 1, 1])
    }

    private static func collecting(
        _ answer: @escaping @Sendable (Request) async throws -> Response,
        body: @escaping @Sendable (String) async throws -> Void
    ) async throws {
        let (ports, told) = AsyncStream.makeStream(of: Int.self)
        var logger = Logger(label: "collector")
        logger.logLevel = .critical
        let application = Application(
            responder: CallbackResponder { (request: Request, _: BasicRequestContext) in
                try await answer(request)
            },
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { told.yield($0.localAddress?.port ?? 0) }, logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await application.run() }
            for await port in ports {
                try await body("http://127.0.0.1:\(port)")
                break
            }
            group.cancelAll()
        }
    }

    @Test("the option takes 'log' or a collector's URL, and nothing with a user in it")
    func options() throws {
        let place = { (text: String) in try Traces.Options(target: text, percent: 100).place }
        #expect(try place("log") == .log)
        #expect(try place("http://127.0.0.1:4318") == .collector("http://127.0.0.1:4318/v1/traces"))
        #expect(try place("https://c.example/") == .collector("https://c.example/v1/traces"))
        #expect(try place("https://c.example/a/b") == .collector("https://c.example/a/b"))
        for wrong in ["", "logs", "127.0.0.1:4318", "http://", "http:///x", "https://me:pw@c.example"] {
            #expect(throws: ServiceError.self, "\(wrong)") { try place(wrong) }
        }
        #expect(throws: ServiceError.self) { try Traces.Options(target: "log", percent: 101) }
    }
}
