import HTTPTypes
import Hummingbird
import Logging
import Tracing

/// Wraps the router with what all requests have in common above the wire: turns every failure into an error
/// answer, unpacks bodies and packs answers, adds what other origins need, writes the request log, counts
/// requests. The wire itself is `RequestGate`'s.
///
/// The log holds the request's id, method, path without query, status and duration, and the trace's id if the
/// request names one; no header and no body, so no secret. Answers below 400 are logged at debug level: at a
/// thousand requests a second the log would be the load. `--log-requests` logs all at info.
struct ObservedResponder<Inner: HTTPResponder>: HTTPResponder where Inner.Context == ServiceContext {
    let inner: Inner
    let cors: CORSPolicy
    /// Turns the console's cookies into credentials; nil where there is no admin credential.
    var console: ConsoleSessions?
    var meter = RequestMeter()
    /// True if every request has its line.
    var logsAll = false

    /// Answers on a task of its own.
    ///
    /// A task keeps the stack of its deepest call until it ends, some 20 KB after a statement. A connection's
    /// task lives as long as the connection, so it would keep that for each open stream, and for each
    /// connection that waits for its next request.
    func respond(to request: Request, context: ServiceContext) async throws -> Response {
        let answering = Task { try await answer(request, context) }
        return try await withTaskCancellationHandler {
            try await answering.value
        } onCancel: {
            answering.cancel()
        }
    }

    private func answer(_ request: Request, _ context: ServiceContext) async throws -> Response {
        let started = ContinuousClock.now
        let charge = UsageCharge.isNeeded.load(ordering: .relaxed) ? UsageCharge() : nil
        var context = context
        context.logger[metadataKey: "hb.request.id"] = nil
        // The gate has made it, or found it sane.
        context.logger[metadataKey: "request"] = "\(request.headers[RequestID.field] ?? RequestID.made())"
        var response: Response
        var failure: (any Error)?
        let told = RequestTrace(request.headers[RequestTrace.field])
        let span = Traces.open(
            "\(request.method.rawValue)", .server,
            below: SpanIdentity(traceparent: request.headers[RequestTrace.field]))
        let trace = span?.context.span.map { RequestTrace($0, parent: told?.parent) } ?? told
        do {
            let asked = console?.authorized(request) ?? request
            if let trace {
                context.logger[metadataKey: "trace"] = "\(trace.id)"
                let traced = context
                response = try await RequestTrace.$current.withValue(trace) {
                    try await InstrumentationContext.$current.withValue(span?.context) {
                        try await routed(asked, traced, charge)
                    }
                }
            } else {
                response = try await routed(asked, context, charge)
            }
        } catch {
            response = ErrorAnswer.response(for: error)
            span?.recordError(error)
            failure = error
        }
        response = try await response.inForm(for: request).packed(for: request)
        if let charge { response = response.charged(to: charge) }
        cors.apply(to: &response, for: request)
        if request.method == .head { response = response.createHeadResponse() }
        observe(request, response.status, failure, ContinuousClock.now - started, context)
        span?.end(request, response.status, route: context.endpointPath)
        return response
    }

    private func routed(
        _ request: Request, _ context: ServiceContext, _ charge: UsageCharge?
    ) async throws -> Response {
        guard let charge else {
            return try await inner.respond(to: request.prepared(context), context: context)
        }
        return try await UsageCharge.$current.withValue(charge) {
            try await inner.respond(to: request.charged(to: charge).prepared(context), context: context)
        }
    }

    private func observe(
        _ request: Request, _ status: HTTPResponse.Status, _ failure: (any Error)?, _ duration: Duration,
        _ context: ServiceContext
    ) {
        let route = context.endpointPath ?? "NotFound"
        meter.note(request.method, route, status.code, duration)
        let usual: Logger.Level = logsAll ? .info : .debug
        let level: Logger.Level = status.code >= 500 ? .error : status.code >= 400 ? .info : usual
        var logger = context.logger
        let service = meter.service(of: route)
        // The level that was set for a service is that of its requests too.
        if let own = LogOutput.shared.changed(of: service) { logger.logLevel = own }
        var fields: Logger.Metadata = [
            "method": "\(request.method.rawValue)", "path": "\(request.uri.path)",
            "status": "\(status.code)",
            "duration_ms": "\(duration.nanoseconds / 1_000_000)",
        ]
        if status.code >= 500, let failure { fields["error"] = "\(failure)" }
        logger.log(level: level, status.code >= 500 ? "request failed" : "request", metadata: fields)
    }
}

extension ServiceSpan {
    /// Ends the span of a request. A route is a template, so it has no id in it.
    fileprivate func end(_ request: Request, _ status: HTTPResponse.Status, route: String?) {
        let route = route ?? "NotFound"
        operationName = "\(request.method.rawValue) \(route)"
        updateAttributes {
            $0.set("http.request.method", value: .string(request.method.rawValue))
            $0.set("http.route", value: .string(route))
            $0.set("http.response.status_code", value: .int64(Int64(status.code)))
        }
        // A refusal is the client's mistake, and no error of this span.
        if status.code < 500 { setStatus(SpanStatus(code: .ok)) }
        end()
    }
}
