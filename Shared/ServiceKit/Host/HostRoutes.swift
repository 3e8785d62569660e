import Foundation
import Hummingbird
import NIOCore

/// Builds the router of a host: the parts' routes, 405 for the other methods of their paths, 426 for
/// WebSocket paths, and the host's own `/health`, `/admin/<service>/health` and `/metrics`.
struct HostRoutes {
    let parts: [any ServicePart]
    let mount: ServiceMount

    private static let methods: [HTTPRequest.Method] = [.get, .head, .post, .put, .patch, .delete, .options]

    func router() -> Router<ServiceContext> {
        let router = Router(context: ServiceContext.self)
        var byPath: [String: Set<HTTPRequest.Method>] = [:]
        for route in mount.routes + ownRoutes {
            byPath[route.path, default: []].insert(route.method)
            add(router, route.method, route.path, route.handler)
        }
        for (path, served) in byPath {
            let allow = served.map(\.rawValue).sorted().joined(separator: ", ")
            for method in Self.methods where !served.contains(method) {
                add(router, method, path) { _, _ in throw MethodNotAllowed(allow: allow) }
            }
        }
        for route in mount.webSockets {
            for method in Self.methods { add(router, method, route.path) { _, _ in throw UpgradeNeeded() } }
        }
        return router
    }

    /// Turns errors into answers here: Hummingbird would give its own errors a body of another shape.
    private func add(
        _ router: Router<ServiceContext>, _ method: HTTPRequest.Method, _ path: String,
        _ handler: @escaping ServiceMount.Handler
    ) {
        router.on(RouterPath(path), method: method) { request, context -> Response in
            do {
                return try await handler(request, context)
            } catch {
                let response = ErrorAnswer.response(for: error)
                if response.status.code >= 500 {
                    context.logger.error("request failed", metadata: ["error": "\(error)"])
                }
                return response
            }
        }
    }

    var ownRoutes: [ServiceMount.Route] {
        let parts = parts
        var routes = [
            ServiceMount.Route(method: .get, path: "/health") { _, _ in await Self.health(parts) },
            ServiceMount.Route(method: .get, path: "/metrics") { _, _ in
                Response(
                    status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
                    body: ResponseBody(byteBuffer: ByteBuffer(string: PrometheusRegistry.shared.text())))
            },
        ]
        for part in parts {
            routes.append(
                ServiceMount.Route(method: .get, path: "/admin/\(part.name)/health") { _, _ in
                    await Self.health([part])
                })
        }
        return routes
    }

    private struct HealthReport: Encodable {
        var status: HealthCheck.Status
        var checks: [String: HealthCheck]
    }

    /// 200 when every part works, else 503.
    private static func health(_ parts: [any ServicePart]) async -> Response {
        var checks: [String: HealthCheck] = [:]
        for part in parts { checks[part.name] = await part.health() }
        let isWell = checks.values.allSatisfy { $0.status == .ok }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        // Strings always encode.
        let body =
            (try? encoder.encode(HealthReport(status: isWell ? .ok : .failing, checks: checks))) ?? Data()
        return .json(body, status: isWell ? .ok : .serviceUnavailable)
    }
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
