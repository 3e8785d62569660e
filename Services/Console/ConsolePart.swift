import CRDT
import Foundation
import HTTPTypes
import Hummingbird
import Identity
import Machine
import NIOCore
import ServiceKit

/// The web console: serves its page at `/`, keeps its sessions, and remembers metrics for its plots.
///
/// The page is a client of the public and admin routes like any other. All that the server adds is
/// `/admin/console/session`, a cookie for a credential (decision 0078), and `/admin/metrics/series`.
public struct ConsolePart: ServicePart {
    /// `console`.
    public let name = "console"
    private let routes: SessionRoutes
    private let admin: AdminCredential
    private let system: SystemDatabase
    private let metrics = MetricHistory()

    /// - Parameters:
    ///   - admin: the credential of administrators, under which sessions are sealed.
    ///   - authenticator: accepts tokens and API keys.
    ///   - system: the place of sign-outs.
    ///   - access: how browsers reach the server.
    public init(
        admin: AdminCredential, authenticator: Authenticator, system: SystemDatabase, access: ConsoleAccess
    ) {
        self.admin = admin
        self.system = system
        routes = SessionRoutes(
            admin: admin, authenticator: authenticator, system: system, access: access,
            sessions: ConsoleSessions(credential: admin, system: system))
    }

    /// Serves the page, its files, its sessions and the metrics' history.
    public func mount(on mount: inout ServiceMount) {
        mount.on(.get, "/") { request, _ in PageFiles.shared.index(for: request) }
        mount.on(.get, "/console/:version/:part") { request, context in
            try PageFiles.shared.file(for: request, context)
        }
        mount.on(.get, "/console/:version/:part/:file") { request, context in
            try PageFiles.shared.file(for: request, context)
        }
        routes.mount(on: &mount)
        mount.background("metrics for plots") { [metrics, gauges = mount.gauges] in
            for turn in 0... {
                // The parts' lags and sessions are asked for less often: that costs more than reading them.
                if turn % Limits.metricTurnsOfGauges == 0 { await gauges.measure() }
                metrics.record(milliseconds: Int64(SystemClock.milliseconds()))
                try await Task.sleep(for: Limits.metricStep)
            }
        }
        let path = "/admin/metrics/series"
        mount.on(.get, path) { [admin, system, metrics] request, context in
            try await system.audit.admin(
                request, context, route: path, admit: { try admin.admit(request, route: path) }
            ) {
                let query = try QueryValues(request)
                let since = try query.whole("since", in: 0...UInt64(Int64.max)) ?? 0
                let step = try query.choice("step", of: ["5", "60"])
                let series = metrics.value(
                    names: query.all("name"), since: Int64(since), isCoarse: step == "60")
                return .json(
                    JSONText.print(["series": series]).utf8, headers: [.cacheControl: "no-store"])
            }
        }
    }
}

/// How browsers reach a server.
public struct ConsoleAccess: Sendable {
    /// True if the server speaks TLS itself.
    public var isSecure: Bool
    /// True if a proxy is in front whose fields are believed.
    public var isBehindProxy: Bool
    /// True if whoever started the server may sign in as administrator with one click, on the same machine.
    public var offersLocalSignIn: Bool

    /// The access to a server as it is configured.
    /// - Parameter isWhole: true for the whole server in one process, which runs on a developer's machine.
    public init(_ configuration: ServiceConfiguration, isWhole: Bool) {
        isSecure = configuration.listen.isSecure || configuration.tls != nil
        isBehindProxy = configuration.behindProxy
        offersLocalSignIn =
            isWhole && !configuration.behindProxy
            && ["127.0.0.1", "::1", "localhost"].contains(configuration.listen.host)
    }
}
