import CRDT
import Hummingbird
import Logging

/// Routes for operators that every process has: its settings, the levels and the latest lines of its log.
///
/// They stand under the name of each service of the process, so that a proxy in front finds the process, and
/// `/admin/settings` is that of whichever process is asked.
struct HostOperation: Sendable {
    /// Nil opens nothing.
    var admin: AdminCredential?
    var audit: AuditLog?
    /// The names of the process's services.
    var services: [String] = Surface.services
    var settings: [EffectiveSetting] = []
    var output = LogOutput.shared

    /// The routes for these parts.
    init(
        admin: AdminCredential? = nil, audit: AuditLog? = nil, services: [String] = Surface.services,
        settings: [EffectiveSetting] = []
    ) {
        (self.admin, self.audit, self.settings) = (admin, audit, settings)
        self.services = Surface.services.filter(services.contains)
    }

    var routes: [ServiceMount.Route] {
        var routes = [route(.get, "/admin/settings") { _, _ in listSettings() }]
        for service in services {
            let base = "/admin/\(service)"
            routes += [
                route(.get, "\(base)/settings") { _, _ in listSettings() },
                route(.get, "\(base)/log-level") { _, _ in showLevel(of: service) },
                route(.put, "\(base)/log-level") { request, _ in try await setLevel(of: service, request) },
                route(.get, "\(base)/log-lines") { request, _ in
                    let most = UInt64(Limits.keptLines)
                    let limit = try QueryValues(request).whole("limit", in: 1...most) ?? most
                    let lines = output.lines(limit: Int(limit))
                    return answer(["lines": .array(lines.map { .string($0) })])
                },
            ]
        }
        return routes
    }

    private func route(
        _ method: HTTPRequest.Method, _ path: String, _ handler: @escaping ServiceMount.Handler
    ) -> ServiceMount.Route {
        let query = Surface.route(method, path)?.query
        return ServiceMount.Route(method: method, path: path, query: query ?? []) { request, context in
            guard let admin else {
                throw ServiceError(.adminRefused, "this process has no admin credential")
            }
            return try await admin.answer(request, context, audit, route: path) {
                try await handler(request, context)
            }
        }
    }

    private func answer(_ value: Value) -> Response {
        .json(JSONText.bytes(value), headers: [.cacheControl: "no-store"])
    }

    private func listSettings() -> Response {
        let rows = settings.map { setting -> Value in
            [
                "name": .string(setting.name), "value": setting.value.map { .string($0) } ?? .null,
                "origin": .string(setting.origin.rawValue),
            ]
        }
        return answer(["settings": .array(rows), "version": .string(BuildVersion.text)])
    }

    private func showLevel(of service: String) -> Response {
        let (level, rest) = output.level(of: service)
        return answer([
            "level": .string(level.rawValue), "seconds": rest.map { .int($0.components.seconds) } ?? .null,
        ])
    }

    private func setLevel(of service: String, _ request: Request) async throws -> Response {
        let body = try await request.wholeBody(limitBytes: Limits.consoleBodyBytes)
        let members: ObjectValue
        do {
            members = try RequestObject(body.readableBytesView, known: ["level", "seconds"]).members
        } catch {
            throw ServiceError(.badRequest, error.message)
        }
        guard let word = members["level"]?.stringValue, let level = Logger.Level(rawValue: word) else {
            let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            throw ServiceError(.badRequest, "level must be one of \(levels)")
        }
        let seconds = members["seconds"].map { $0.intValue } ?? Int64(Limits.levelSeconds)
        guard let seconds, 1...Int64(Limits.longestLevelSeconds) ~= seconds else {
            throw ServiceError(
                .badRequest, "seconds must be a number from 1 to \(Limits.longestLevelSeconds)")
        }
        output.set(level, of: service, for: .seconds(seconds))
        return showLevel(of: service)
    }
}
