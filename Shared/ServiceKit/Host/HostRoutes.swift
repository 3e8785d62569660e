import CRDT
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// Builds the responder of a host: the parts' routes, `HEAD` wherever there is `GET`, `OPTIONS` and 405 that
/// name a path's methods, 426 for WebSocket paths, and the host's own `/health`, `/admin/<service>/health`
/// and `/metrics`.
struct HostRoutes {
    let parts: [any ServicePart]
    let mount: ServiceMount
    var drain: HostDrain?
    /// Settings and log of the process, for operators; nil where nobody has told.
    var operation: HostOperation?
    var adminReach = AdminReach()

    func responder() -> HostResponder {
        let routes = Router(context: ServiceContext.self)
        var byPath: [String: Set<HTTPRequest.Method>] = [:]
        for route in mount.routes + ownRoutes {
            byPath[route.path, default: []].insert(route.method)
            add(route, to: routes)
        }
        for route in mount.routes + ownRoutes
        where route.method == .get && byPath[route.path]?.insert(.head).inserted == true {
            var head = route
            head.method = .head
            add(head, to: routes)
        }
        // Every path once, under GET: what other methods than the path's own are answered.
        let others = Router(context: ServiceContext.self)
        for (path, served) in byPath {
            let methods = served.union([.options]).map(\.rawValue).sorted().joined(separator: ", ")
            others.on(RouterPath(path), method: .get) { request, _ in
                try Self.answerOther(request, methods, MethodNotAllowed(allow: methods))
            }
        }
        for route in mount.webSockets {
            others.on(RouterPath(route.path), method: .get) { request, _ in
                try Self.answerOther(request, "GET, OPTIONS", UpgradeNeeded())
            }
        }
        return HostResponder(routes: routes.buildResponder(), others: others.buildResponder())
    }

    /// `OPTIONS` needs no credential: it says what the documentation says, and browsers ask without one.
    private static func answerOther(
        _ request: Request, _ methods: String, _ refusal: any HTTPReportable
    ) throws -> Response {
        let asked = request.headers[HostResponder.method]
        guard asked == HTTPRequest.Method.options.rawValue else { throw refusal }
        return Response(status: .noContent, headers: [.allow: methods])
    }

    /// Turns errors into answers here: Hummingbird would give its own errors a body of another shape.
    private func add(_ route: ServiceMount.Route, to router: Router<ServiceContext>) {
        let audit = operation?.audit
        let reach = AdminReach.concerns(route.path) ? adminReach : AdminReach()
        router.on(RouterPath(route.path), method: route.method) { request, context -> Response in
            do {
                do { try reach.check(request, context) } catch {
                    if let audit { audit.note(audit.entry("admin", .refused, request, context), error) }
                    throw error
                }
                if let known = route.query { try Self.check(request.uri.query, known) }
                if let accept = request.headers[.accept], !route.types.isEmpty,
                    MediaTypes(accept).best(of: route.types) == nil
                {
                    let types = route.types.joined(separator: ", ")
                    throw ServiceError(.notAcceptable, "this path answers in \(types); see Accept")
                }
                return try await route.handler(request, try Self.decoded(context))
            } catch {
                if let failure = route.failure { return failure(error, context.logger) }
                let response = ErrorAnswer.response(for: error)
                if response.status.code >= 500 {
                    context.logger.error("request failed", metadata: ["error": "\(error)"])
                }
                return response
            }
        }
    }

    /// - Throws: `SRV-0400` for a parameter that the route does not know.
    static func check(_ query: String?, _ known: [String]) throws(ServiceError) {
        for item in (query ?? "").split(separator: "&") {
            guard let name = PathText.decoded(item.prefix { $0 != "=" }) else {
                throw ServiceError(.badRequest, "the query of the path is not percent-encoded UTF-8")
            }
            guard Names.contain(known, name) else {
                throw ServiceError(.badRequest, Names.unknown("a query parameter of this path", name, known))
            }
        }
    }

    /// The context with the path's parameters as texts: decoded here, once, and nowhere else.
    private static func decoded(_ context: ServiceContext) throws(ServiceError) -> ServiceContext {
        guard context.parameters.contains(where: { $0.value.contains("%") }) else { return context }
        var context = context
        var parameters = Parameters()
        for (name, value) in context.parameters {
            // The responder has checked the whole path.
            guard let text = PathText.decoded(value) else { throw HostResponder.malformedPath }
            parameters.append(key: name, value: text[...])
        }
        context.coreContext.parameters = parameters
        return context
    }

    var ownRoutes: [ServiceMount.Route] {
        let (parts, drain) = (parts, drain)
        let figures = HostFigures(parts: parts, drain: drain)
        // Monitors add parameters of their own, such as a time that keeps caches away: a refusal would look
        // like a sick server.
        var routes = [
            ServiceMount.Route(method: .get, path: "/health", query: nil) { _, _ in
                await Self.health(parts, drain)
            },
            ServiceMount.Route(method: .get, path: "/health/live", query: nil) { _, _ in
                .json(JSONText.bytes(["status": "live", "version": .string(BuildVersion.number)]))
            },
            ServiceMount.Route(method: .get, path: "/health/ready", query: nil) { _, _ in
                Self.ready(await figures.reasons())
            },
            ServiceMount.Route(method: .get, path: "/metrics", query: nil) { _, _ in
                await figures.measure()
                return Response(
                    status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
                    body: ResponseBody(byteBuffer: ByteBuffer(string: PrometheusRegistry.shared.text())))
            },
        ]
        routes += ["/openapi.json", "/api/v5/openapi.json", "/api/v5/swagger.json"].map { path in
            ServiceMount.Route(method: .get, path: path, query: []) { _, _ in .json(OpenAPI.json) }
        }
        routes.append(
            ServiceMount.Route(method: .get, path: "/mimeo.js", query: []) { _, _ in
                Response(
                    status: .ok,
                    headers: [
                        .contentType: "text/javascript; charset=utf-8", .cacheControl: "no-cache",
                    ], body: ResponseBody(byteBuffer: ByteBuffer(bytes: PackageResources.mimeo_js)))
            })
        routes.append(
            ServiceMount.Route(method: .get, path: "/api/v5/docs", query: []) { _, _ in
                Response(
                    status: .ok,
                    headers: [
                        .contentType: "text/html; charset=utf-8",
                        .contentSecurityPolicy: ReferencePage.policy,
                    ], body: ResponseBody(byteBuffer: ByteBuffer(bytes: ReferencePage.html)))
            })
        routes += (operation ?? HostOperation()).routes
        // Without the log no part works, so each one's health includes the system database's.
        let system = parts.filter { $0 is SystemDatabasePart }
        for part in parts {
            let checked = part is SystemDatabasePart ? [part] : system + [part]
            routes.append(
                ServiceMount.Route(method: .get, path: "/admin/\(part.name)/health", query: nil) { _, _ in
                    await Self.health(checked, drain)
                })
        }
        return routes
    }

    /// 200 without reasons, else 503.
    private static func ready(_ reasons: [Unreadiness]) -> Response {
        let body: Value = [
            "status": .string(reasons.isEmpty ? "ready" : "not ready"),
            "reasons": .array(
                reasons.map {
                    [
                        "part": .string($0.part), "code": .string($0.code), "message": .string($0.message),
                    ]
                }),
        ]
        return .json(
            JSONText.bytes(body), status: reasons.isEmpty ? .ok : .serviceUnavailable,
            headers: [.cacheControl: "no-store"])
    }

    /// 200 when every part works, else 503.
    private static func health(_ parts: [any ServicePart], _ drain: HostDrain?) async -> Response {
        var checks: [String: HealthCheck] = [:]
        for part in parts { checks[part.name] = await part.health() }
        if drain?.isDraining == true {
            checks["host"] = .failing("it is about to stop, and answers until the proxies in front notice")
        }
        let isWell = checks.values.allSatisfy { $0.status == .ok }
        var body = ObjectValue()
        body["status"] = .string((isWell ? HealthCheck.Status.ok : .failing).rawValue)
        body["checks"] = .object(ObjectValue(unique: checks.map { (key: $0.key, value: $0.value.json) }))
        body["version"] = .string(BuildVersion.number)
        body["commit"] = BuildVersion.commit.map { .string($0) }
        let text = JSONText.print(.object(body), sortedKeys: true)
        return .json(text.utf8, status: isWell ? .ok : .serviceUnavailable)
    }
}

extension HealthCheck {
    /// Its form in the answer.
    fileprivate var json: Value {
        var members = ObjectValue()
        members["status"] = .string(status.rawValue)
        members["detail"] = detail.map { .string($0) }
        return .object(members)
    }
}

/// Routes a request: a path in any spelling, and methods that its route does not have.
struct HostResponder: HTTPResponder {
    let routes: RouterResponder<ServiceContext>
    /// Every path under GET, for requests whose method has no route there.
    let others: RouterResponder<ServiceContext>

    /// Carries the method of a request to `others`.
    static var method: HTTPField.Name {
        guard let name = HTTPField.Name("X-HTTP-Method") else { preconditionFailure("a valid field name") }
        return name
    }

    static var malformedPath: ServiceError {
        ServiceError(.badRequest, "the path is not percent-encoded UTF-8")
    }

    func respond(to request: Request, context: ServiceContext) async throws -> Response {
        if request.uri.path == "*" { return Response(status: .noContent, headers: [.allow: Self.anyMethod]) }
        guard let path = PathText.normalized(request.uri.path) else { throw Self.malformedPath }
        var request = request
        if path != request.uri.path {
            var head = request.head
            head.path = path + (request.uri.query.map { "?\($0)" } ?? "")
            request = Request(head: head, body: request.body)
        }
        let response = try await routes.respond(to: request, context: context)
        // The router's own answer to what it does not know; it has no body.
        guard response.status == .notFound, context.endpointPath == Self.unknown else { return response }
        var head = request.head
        head.headerFields[Self.method] = head.method.rawValue
        head.method = .get
        let other = try await others.respond(to: Request(head: head, body: request.body), context: context)
        guard other.status == .notFound, context.endpointPath == Self.unknown else { return other }
        throw HTTPError(.notFound)
    }

    /// Hummingbird's name for an endpoint that does not exist.
    private static let unknown = "NotFound"
    private static let anyMethod = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
}

private struct MethodNotAllowed: HTTPReportable {
    let allow: String
    var httpStatus: HTTPResponse.Status { .methodNotAllowed }
    var publicCode: String { ServiceErrorCode.methodNotAllowed.rawValue }
    var publicMessage: String { "this path does not accept the method; it accepts \(allow)" }
    var httpHeaders: HTTPFields { [.allow: allow] }
}

private struct UpgradeNeeded: HTTPReportable {
    var httpStatus: HTTPResponse.Status { .upgradeRequired }
    var publicCode: String { ServiceErrorCode.upgradeRequired.rawValue }
    var publicMessage: String {
        "this path speaks only WebSocket; send the upgrade as the first request of a connection"
    }
    var httpHeaders: HTTPFields { [.upgrade: "websocket"] }
}
