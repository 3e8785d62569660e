import Hummingbird
import Logging
import WebSocket

/// One service, as the host sees it: what it serves, what it does in the background, whether it is well.
/// A process hosts one part or several; they share the listener and nothing else.
public protocol ServicePart: Sendable {
    /// As in `/admin/<name>/health` and in the log: `auth-gateway`, `replicator`, …
    var name: String { get }

    /// Adds routes, WebSocket routes and background tasks. Called once, before `start`.
    func mount(on mount: inout ServiceMount) throws

    /// Called before the host listens: opens files, registers databases. A throw ends the process.
    func start() async throws

    /// Called when the host is told to stop, while it still serves: sends away who would otherwise be cut
    /// off. Bounded by the part, well within `Limits.shutdownGrace`.
    func drain() async

    /// Called after the last request and the last background task.
    func stop() async

    /// Asked for each `GET /health`; answers at once.
    func health() async -> HealthCheck
}

extension ServicePart {
    /// Nothing to do.
    public func start() async throws {}
    /// Nobody to send away.
    public func drain() async {}
    /// Nothing to do.
    public func stop() async {}
    /// Well, as long as the process answers.
    public func health() async -> HealthCheck { .ok }
}

/// How a part is.
public struct HealthCheck: Sendable, Equatable, Encodable {
    /// `ok` or `failing`.
    public enum Status: String, Sendable, Encodable {
        /// Works.
        case ok
        /// Does not do its work at the moment.
        case failing
    }

    /// Whether the part works.
    public var status: Status
    /// For a person; public, so without secrets.
    public var detail: String?

    /// A check of the given parts.
    public init(_ status: Status, detail: String? = nil) {
        self.status = status
        self.detail = detail
    }

    /// Works.
    public static let ok = HealthCheck(.ok)
    /// Does not do its work.
    public static func failing(_ detail: String) -> HealthCheck { HealthCheck(.failing, detail: detail) }
}

/// Collects what the parts of a host serve.
public struct ServiceMount {
    /// Answers a request, or throws; see `HTTPReportable` for how errors are told.
    public typealias Handler = @Sendable (Request, ServiceContext) async throws -> Response

    struct Route: Sendable {
        var method: HTTPRequest.Method
        var path: String
        var handler: Handler
    }

    struct Background: Sendable {
        var name: String
        var run: @Sendable () async throws -> Void
    }

    private(set) var routes: [Route] = []
    private(set) var webSockets: [WebSocketRoute] = []
    private(set) var backgrounds: [Background] = []

    init() {}

    /// What the parts of a host serve, as `METHOD path`: for tests that hold every route against something.
    public static func routes(of parts: [any ServicePart]) throws -> [String] {
        var mount = ServiceMount()
        for part in parts { try part.mount(on: &mount) }
        let all = mount.routes + HostRoutes(parts: parts, mount: mount).ownRoutes
        return (all.map { "\($0.method.rawValue) \($0.path)" } + mount.webSockets.map { "GET \($0.path)" })
            .sorted()
    }

    /// Serves a path, like `/api/v4/attachments/:id` (`context.parameters.require("id")`). Methods that
    /// nobody serves at the path are answered with 405. A `HEAD` route's body is dropped, its headers are
    /// sent.
    public mutating func on(_ method: HTTPRequest.Method, _ path: String, use handler: @escaping Handler) {
        routes.append(Route(method: method, path: path, handler: handler))
    }

    /// Accepts WebSockets at a path without parameters.
    /// - Parameters:
    ///   - subprotocols: the spoken ones, best first; a client that offers none of them is still accepted.
    ///   - authorize: runs before the upgrade; what it returns is handed to `handle`, what it throws is
    ///     answered with its status as for any route.
    ///   - answerHeaders: what the answer to the upgrade tells this connection.
    ///   - handle: runs the connection to its end, `WebSocketConnection.run(over: channel, role: .server)
    ///     { … }`, or begins to and returns; it sees to it that the channel is closed.
    public mutating func webSocket<Context: Sendable>(
        _ path: String, subprotocols: [String] = [],
        authorize: @escaping @Sendable (WebSocketRequest) async throws -> Context,
        answerHeaders: @escaping @Sendable (Context) -> [(name: String, value: String)] = { _ in [] },
        handle: @escaping @Sendable (WebSocketChannel, Context, Logger) async -> Void
    ) {
        webSockets.append(
            WebSocketRoute(path: path, subprotocols: subprotocols) { request in
                let context = try await authorize(request)
                return WebSocketRoute.Accepted(
                    handler: { channel, logger in await handle(channel, context, logger) },
                    headers: answerHeaders(context))
            })
    }

    /// Runs for as long as the host does. The task is cancelled when the host stops, after the last request;
    /// a return before that is fine, a throw stops the host with that error.
    public mutating func background(_ name: String, _ run: @escaping @Sendable () async throws -> Void) {
        backgrounds.append(Background(name: name, run: run))
    }
}
