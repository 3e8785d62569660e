import Hummingbird
import Logging
import WebSocket

/// One service, as the host sees it: its routes, its background tasks, its health.
/// A process hosts one part or several; they share the listener and nothing else.
public protocol ServicePart: Sendable {
    /// The name in `/admin/<name>/health` and in the log: `auth-gateway`, `replicator`, …
    var name: String { get }

    /// Adds routes, WebSocket routes and background tasks. Called once, before `start`.
    func mount(on mount: inout ServiceMount) throws

    /// Called before the host listens: opens files, registers databases. An error ends the process.
    func start() async throws

    /// Called when the host is told to stop, while it still serves: sends away clients that would otherwise
    /// be cut off. The part bounds this, well within `Limits.shutdownGrace`.
    func drain() async

    /// Called after the last request and the last background task.
    func stop() async

    /// Called for each `GET /health`; returns at once.
    func health() async -> HealthCheck

    /// Called for each `GET /health/ready`: the reasons why no request should be sent here, none while the
    /// part can serve. Returns at once.
    func readiness() async -> [Unreadiness]

    /// Called before an answer with the metrics, at most every `Limits.measureInterval`: sets gauges that are
    /// read only when somebody asks (`Measured`).
    func measure() async
}

extension ServicePart {
    /// Does nothing.
    public func start() async throws {}
    /// Does nothing.
    public func drain() async {}
    /// Does nothing.
    public func stop() async {}
    /// `ok`, as long as the process answers.
    public func health() async -> HealthCheck { .ok }
    /// Ready, as long as the process answers.
    public func readiness() async -> [Unreadiness] { [] }
    /// Sets nothing.
    public func measure() async {}
}

/// Health of a part.
public struct HealthCheck: Sendable, Equatable, Encodable {
    /// `ok` or `failing`.
    public enum Status: String, Sendable, Encodable {
        /// The part works.
        case ok
        /// The part does not work at the moment.
        case failing
    }

    /// `ok` if the part works.
    public var status: Status
    /// The reason, for a person; public, so without secrets.
    public var detail: String?

    /// A check of the given parts.
    public init(_ status: Status, detail: String? = nil) {
        self.status = status
        self.detail = detail
    }

    /// A part that works.
    public static let ok = HealthCheck(.ok)
    /// A part that does not work, and the reason.
    public static func failing(_ detail: String) -> HealthCheck { HealthCheck(.failing, detail: detail) }
}

/// Collects the routes, WebSockets and background tasks of a host's parts.
public struct ServiceMount {
    /// Answers a request, or throws; see `HTTPReportable` for the answer to an error.
    public typealias Handler = @Sendable (Request, ServiceContext) async throws -> Response

    /// Makes the answer to an error, for a route whose errors have a form of their own.
    public typealias Failure = @Sendable (any Error, Logger) -> Response

    struct Route: Sendable {
        var method: HTTPRequest.Method
        var path: String
        /// The part that serves it; empty for the host's own.
        var owner = ""
        /// The query parameters there are; nil for any.
        var query: [String]?
        /// The media types that it can answer in; empty for any.
        var types: [String] = []
        var failure: Failure?
        var handler: Handler

        init(
            method: HTTPRequest.Method, path: String, query: [String]?, failure: Failure? = nil,
            handler: @escaping Handler
        ) {
            (self.method, self.path, self.query) = (method, path, query)
            (self.failure, self.handler) = (failure, handler)
        }
    }

    struct Background: Sendable {
        var name: String
        var run: @Sendable () async throws -> Void
    }

    /// Sets the gauges of the host that are read only when somebody asks.
    public let gauges = HostGauges()
    /// The part that adds routes now.
    private var owner = ""
    private(set) var routes: [Route] = []
    private(set) var webSockets: [WebSocketRoute] = []
    private(set) var briefs: [String: BriefRoute] = [:]
    private(set) var backgrounds: [Background] = []

    init() {}

    /// All routes of a host's parts, as `METHOD path`, for tests that check every route.
    public static func routes(of parts: [any ServicePart]) throws -> [String] {
        var mount = ServiceMount()
        for part in parts { try mount.add(part) }
        let all = mount.routes + HostRoutes(parts: parts, mount: mount).ownRoutes
        return (all.map { "\($0.method.rawValue) \($0.path)" } + mount.webSockets.map { "GET \($0.path)" })
            .sorted()
    }

    /// Adds everything of a part.
    mutating func add(_ part: any ServicePart) throws {
        owner = part.name
        try part.mount(on: &self)
        owner = ""
    }

    /// The part of each route, by the route's name in the router.
    var owners: [String: String] {
        Dictionary(
            routes.map { (RouterPath($0.path).description, $0.owner) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Serves a path, like `/api/v4/attachments/:id` (`context.parameters.require("id")`, decoded).
    /// `GET` serves `HEAD` too, without the body. `OPTIONS` names the path's methods, and others are a 405.
    /// `Surface` describes the route; a test finds one without a description.
    /// - Parameters:
    ///   - query: the query parameters there are, instead of the description's; a request with another one is
    ///     answered with 400.
    ///   - failure: makes the answer to an error where its form is the route's own.
    public mutating func on(
        _ method: HTTPRequest.Method, _ path: String, query: [String]? = nil, failure: Failure? = nil,
        use handler: @escaping Handler
    ) {
        let description = Surface.route(method, path)
        var route = Route(
            method: method, path: path, query: query ?? description?.query ?? [], failure: failure,
            handler: handler)
        route.types = description?.types ?? []
        route.owner = owner
        routes.append(route)
    }

    /// Lets short requests of a `POST` route be answered on the event loop, without a task: neither the route
    /// nor its answers may wait, and both take a fraction of a millisecond. The handler of the route answers
    /// everything else, and must give the same answers.
    public mutating func brief(_ path: String, _ route: @escaping BriefRoute) { briefs[path] = route }

    /// Accepts WebSockets at a path without parameters.
    /// - Parameters:
    ///   - query: the query parameters there are; an upgrade with another one is refused with 400.
    ///   - subprotocols: supported ones, best first; a client that offers none of them is still accepted.
    ///   - authorize: runs before the upgrade. Its result is passed to `handle`; its error is answered with
    ///     the error's status, as for any route.
    ///   - answerHeaders: further header fields of the answer to this connection's upgrade.
    ///   - handle: runs the connection, `WebSocketConnection.run(over: channel, role: .server) { … }`, to
    ///     its end, or starts it and returns; in both cases it must make sure that the channel is closed.
    public mutating func webSocket<Context: Sendable>(
        _ path: String, query: [String] = [], subprotocols: [String] = [],
        authorize: @escaping @Sendable (WebSocketRequest) async throws -> Context,
        answerHeaders: @escaping @Sendable (Context) -> [(name: String, value: String)] = { _ in [] },
        handle: @escaping @Sendable (WebSocketChannel, Context, Logger) async -> Void
    ) {
        webSockets.append(
            WebSocketRoute(path: path, subprotocols: subprotocols) { request in
                try HostRoutes.check(request.query, query)
                let context = try await authorize(request)
                return WebSocketRoute.Accepted(
                    handler: { channel, logger in await handle(channel, context, logger) },
                    headers: answerHeaders(context)
                        + request.headers[RequestID.name].map { (name: RequestID.name, value: $0) })
            })
    }

    /// Runs a task for as long as the host runs. The task is cancelled when the host stops, after the last
    /// request. It may return earlier; an error stops the host with that error.
    public mutating func background(_ name: String, _ run: @escaping @Sendable () async throws -> Void) {
        backgrounds.append(Background(name: name, run: run))
    }
}
