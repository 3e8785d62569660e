import Hummingbird
import HummingbirdCore
import Logging
import Metrics
import NIOCore
import NIOPosix
import ServiceLifecycle
import UnixSignals

/// One listener that serves any number of service parts.
///
/// Start: parts start, the host listens, background tasks run. Stop, on a signal or when `run`'s task is
/// cancelled: parts drain, behind a proxy for a while (`HostDrain`), no new connection is accepted, requests
/// end, WebSockets are told "going away", background tasks are cancelled, parts stop. `Stopping` bounds the
/// whole stop. A process may run any number of hosts.
public struct ServiceHost: Sendable {
    private let parts: [any ServicePart]
    private let listen: ListenAddress
    private let tls: TLSFiles?
    private let cors: CORSPolicy
    private let forwarding: ForwardingWatch?
    private let console: ConsoleSessions?
    private let stopping: Stopping
    private var operation: HostOperation?
    private var logsRequests = false
    private var adminReach = AdminReach()
    private let logger: Logger
    private let onListening: @Sendable (ListenAddress) async -> Void

    /// - Parameters:
    ///   - parts: services with different names and paths.
    ///   - listen: port 0 lets the system choose.
    ///   - tls: certificate and key of the listener; nil for clear text.
    ///   - cors: the pages that may call the routes.
    ///   - forwarding: looks at every request's forwarding fields.
    ///   - console: opens the cookies of the console.
    ///   - stopping: the times of a stop.
    ///   - onListening: called once with the address actually in use, port 0 resolved.
    public init(
        parts: [any ServicePart], listen: ListenAddress, tls: TLSFiles? = nil,
        cors: CORSPolicy = .none, forwarding: ForwardingWatch? = nil, console: ConsoleSessions? = nil,
        stopping: Stopping = Stopping(), logger: Logger = Logger(label: "mimeo"),
        onListening: @escaping @Sendable (ListenAddress) async -> Void = { _ in }
    ) {
        self.parts = parts
        self.listen = listen
        self.tls = tls
        self.cors = cors
        self.forwarding = forwarding
        self.console = console
        self.stopping = stopping
        self.logger = logger
        self.onListening = onListening
    }

    /// The times of a stop.
    public struct Stopping: Sendable {
        /// How long the host serves on, for proxies to notice; see `HostDrain`.
        public var drain: Duration = .zero
        /// How long running requests and WebSockets have to end after that.
        public var grace: Duration = Limits.shutdownGrace

        /// The times of a host without a proxy in front, unless they are given.
        public init(drain: Duration = .zero, grace: Duration = Limits.shutdownGrace) {
            (self.drain, self.grace) = (drain, grace)
        }
    }

    /// A host as flags, environment and file configure it.
    /// - Throws: `SRV-0106`.
    public init(
        _ configuration: ServiceConfiguration, parts: [any ServicePart], logger: Logger,
        onListening: @escaping @Sendable (ListenAddress) async -> Void
    ) throws(ServiceError) {
        let system = parts.lazy.compactMap { ($0 as? SystemDatabasePart)?.system }.first
        self.init(
            parts: parts, listen: configuration.listen, tls: try configuration.tlsFiles(logger: logger),
            cors: configuration.cors,
            forwarding: ForwardingWatch(trustsProxy: configuration.behindProxy, logger: logger),
            console: system.map {
                ConsoleSessions(credential: AdminCredential(configuration, system: $0), system: $0)
            },
            stopping: Stopping(drain: configuration.drain, grace: configuration.stop),
            logger: logger, onListening: onListening)
        logsRequests = configuration.logsRequests
        adminReach = AdminReach(
            isLoopback: configuration.isAdminLoopback, trustsProxy: configuration.behindProxy)
        operation = system.map { system in
            HostOperation(
                admin: AdminCredential(configuration, system: system), audit: system.audit,
                services: parts.map(\.name),
                settings: configuration.effective(of: Self.command(of: parts)))
        }
    }

    /// The command whose parts these are.
    private static func command(of parts: [any ServicePart]) -> Setting.Command {
        let services = parts.map(\.name).filter(Surface.services.contains)
        guard services.count == 1, let only = services.first else { return .serve }
        return Setting.Command(rawValue: only) ?? .serve
    }

    /// Serves until a signal arrives or the task is cancelled; returns after an orderly end. With signals the
    /// process ends even if the stop stands still (`StopDeadline`).
    /// - Throws: `SRV-0201`, `SRV-0202`, or the error of a part or background task.
    public func run(signals: [UnixSignal] = []) async throws {
        let group = try await prepare(signals: signals)
        if !signals.isEmpty {
            // Beyond this function: the process closes its log after it.
            StopDeadline.watch(
                signals: signals, time: stopping.drain + stopping.grace + Limits.stopSpare)
        }
        try await run(group)
    }

    /// Serves for as long as `body` runs, and stops in order afterwards.
    /// - Parameter body: gets the address the host listens on.
    public func run<Result: Sendable>(
        while body: @escaping @Sendable (ListenAddress) async throws -> Result
    ) async throws -> Result {
        let (addresses, continuation) = AsyncStream.makeStream(of: ListenAddress.self)
        let told = onListening
        var host = ServiceHost(
            parts: parts, listen: listen, tls: tls, cors: cors, forwarding: forwarding, console: console,
            stopping: stopping, logger: logger
        ) { address in
            await told(address)
            continuation.yield(address)
        }
        (host.operation, host.logsRequests, host.adminReach) = (operation, logsRequests, adminReach)
        return try await host.serve(while: body, addresses, continuation)
    }

    private func serve<Result: Sendable>(
        while body: @escaping @Sendable (ListenAddress) async throws -> Result,
        _ addresses: AsyncStream<ListenAddress>, _ continuation: AsyncStream<ListenAddress>.Continuation
    ) async throws -> Result {
        let host = self
        let group = try await host.prepare(signals: [])
        return try await withTaskGroup(of: Ended<Result>.self) { tasks -> Swift.Result<Result, any Error> in
            tasks.addTask {
                defer { continuation.finish() }
                do {
                    try await host.run(group)
                    return .host(nil)
                } catch {
                    return .host(error)
                }
            }
            tasks.addTask {
                do {
                    for await address in addresses { return .body(.success(try await body(address))) }
                    return .body(.failure(stoppedEarly))
                } catch {
                    return .body(.failure(error))
                }
            }
            return await end(of: group, &tasks)
        }.get()
    }

    private enum Ended<Result: Sendable>: Sendable {
        case host((any Error)?)
        case body(Swift.Result<Result, any Error>)
    }

    /// Stops the host in order when the body ends, and cancels the body when the host ends. If both fail,
    /// the host's error is returned.
    private func end<Result: Sendable>(
        of group: ServiceGroup, _ tasks: inout TaskGroup<Ended<Result>>
    ) async -> Swift.Result<Result, any Error> {
        var outcome: Swift.Result<Result, any Error> = .failure(stoppedEarly)
        for await ended in tasks {
            switch ended {
            case .host(let error):
                tasks.cancelAll()
                guard let error else { continue }
                // Waits for the cancelled body to end too.
                for await _ in tasks {}
                return .failure(error)
            case .body(let result):
                outcome = result
                await group.triggerGracefulShutdown()
            }
        }
        return outcome
    }

    private var stoppedEarly: ServiceError {
        ServiceError(.addressUnavailable, "the host on \(listen) stopped before its work was done")
    }

    private func prepare(signals: [UnixSignal]) async throws -> ServiceGroup {
        _ = PrometheusRegistry.shared
        let build = [
            ("version", BuildVersion.number), ("commit", BuildVersion.commit ?? ""),
            ("swift", BuildVersion.swift),
        ]
        Gauge(label: "mimeo_build_info", dimensions: build).record(1)
        var mount = ServiceMount()
        for part in parts { try mount.add(part) }
        let meter = RequestMeter(owners: mount.owners)
        tls?.measure()
        let webSockets = mount.webSockets
        let onListening = onListening
        let (listen, tls, forwarding) = (listen, tls, forwarding)
        let briefs = BriefRoutes(routes: mount.briefs, cors: cors, meter: meter, logsAll: logsRequests)
        let drain = HostDrain(pause: stopping.drain)
        mount.gauges.bind(HostFigures(parts: parts, drain: drain))
        let application = Application(
            responder: ObservedResponder(
                inner: HostRoutes(
                    parts: parts, mount: mount, drain: drain, operation: operation, adminReach: adminReach
                ).responder(),
                cors: cors, console: console, meter: meter, logsAll: logsRequests),
            server: HTTPServerBuilder {
                UpgradeChannel(
                    responder: $0, routes: webSockets, briefs: briefs, tls: tls, forwarding: forwarding,
                    drain: drain)
            },
            configuration: ApplicationConfiguration(
                address: .hostname(listen.host, port: listen.port), reuseAddress: true),
            onServerRunning: { channel in
                let port = channel.localAddress?.port ?? listen.port
                var address = ListenAddress(host: listen.host, port: port)
                address.isSecure = tls != nil
                drain.listens(channel)
                await onListening(address)
            },
            logger: logger)
        // Services stop in reverse order: parts drain while the server still serves.
        var services = mount.backgrounds.map { background in
            ServiceGroupConfiguration.ServiceConfiguration(
                service: BackgroundService(run: background.run), successTerminationBehavior: .ignore,
                failureTerminationBehavior: .gracefullyShutdownGroup, serviceName: background.name)
        }
        if let sending = Traces.takeSending() {
            // First, so that it stops last: what happens while the others stop is sent too.
            services.insert(
                ServiceGroupConfiguration.ServiceConfiguration(
                    service: BackgroundService(run: sending), successTerminationBehavior: .ignore,
                    failureTerminationBehavior: .ignore, serviceName: "traces"), at: 0)
        }
        services.append(.init(service: application, serviceName: "http"))
        services.append(.init(service: DrainService(parts: parts, drain: drain), serviceName: "drain"))
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: signals, logger: logger)
        configuration.maximumGracefulShutdownDuration = stopping.drain + stopping.grace
        return ServiceGroup(configuration: configuration)
    }

    private func run(_ group: ServiceGroup) async throws {
        var started: [any ServicePart] = []
        do {
            for part in parts {
                try await part.start()
                started.append(part)
            }
            try await group.run()
        } catch {
            for part in started.reversed() { await part.stop() }
            throw listenError(error)
        }
        for part in started.reversed() { await part.stop() }
    }

    private func listenError(_ error: any Error) -> any Error {
        switch error {
        case let error as IOError where error.errnoCode == EADDRINUSE:
            ServiceError(
                .addressInUse,
                "\(listen) is in use by another process; stop it or choose another address with --listen")
        case let error as IOError:
            ServiceError(.addressUnavailable, "cannot listen on \(listen): \(error)")
        case is SocketAddressError, is SocketAddressError.UnknownHost, is NIOConnectionError:
            ServiceError(
                .addressUnavailable, "cannot listen on \(listen): the host is unknown; see --listen")
        default: error
        }
    }
}

/// Waits until the host is told to stop, then drains all parts concurrently, and lets proxies notice.
private struct DrainService: Service {
    let parts: [any ServicePart]
    let drain: HostDrain

    func run() async throws {
        // Cancelled when the host ends for another reason: no client is left to be sent away.
        do { try await gracefulShutdown() } catch is CancellationError { return }
        drain.begin()
        await withDiscardingTaskGroup { group in
            for part in parts { group.addTask { await part.drain() } }
            group.addTask { try? await Task.sleep(for: drain.pause) }
        }
        await drain.refuseConnections()
    }
}

/// Runs a background task as a service, and ends only by cancellation. A task that has done its work waits
/// for it: the group takes a service that ends before its turn for a broken one.
private struct BackgroundService: Service {
    let run: @Sendable () async throws -> Void

    func run() async throws {
        do {
            try await cancelWhenGracefulShutdown { try await self.run() }
            try await gracefulShutdown()
        } catch is CancellationError {
            // The host stops; that is how a background task ends.
        }
    }
}
