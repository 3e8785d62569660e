import CRDT
import DQL
import Foundation
import Identity
import Logging
import Replica
import Sync
import Synchronization
import Transport
import WebSocket

/// The links of an instance with other small peers: translates the transport configuration and the system
/// parameters into settings of `MeshSync`, and its state into conditions.
///
/// `state` guards the configuration and its problems; it is never held across a call.
final class PeerLinks: Sendable {
    /// The origin of certificates.
    enum Authority: Sendable {
        /// Certificates of the server's logins.
        case server(DittoAuthenticator, ServerAddresses)
        /// A key that all peers share.
        case shared(PeerKey)
        /// None: everything in the clear.
        case none
    }

    private struct State {
        var config = DittoTransportConfig()
        /// The parts of the configuration that cannot be used, with the reason.
        var problems: [String] = []
        var hasWarned = false
        /// Decides about a peer; nil until the instance is open.
        var ask: (@Sendable (MeshPeer) async -> Bool)?
        var changed: (@Sendable () -> Void)?
    }

    let mesh: MeshSync
    /// Answers linked peers that ask for attachments.
    let share: AttachmentShare
    /// The presence of peers: fed by links and by the session with the server.
    let presence: PresenceSync
    private let engine: Engine
    private let authority: Authority
    private let state: LockedState

    /// The state behind a reference: closures need it before the links exist.
    private final class LockedState: Sendable { let value = Mutex(State()) }

    init(
        _ engine: Engine, databaseID: String, authority: Authority, files: IdentityFiles
    ) throws {
        let databaseID = DatabaseID(databaseID)
        let state = LockedState()
        self.state = state
        self.engine = engine
        self.authority = authority
        let environment = engine.environment
        let settings = engine.settings
        let shared: SharedCredentials? =
            if case .shared(let key) = authority { SharedCredentials(key, databaseID: databaseID) } else {
                nil
            }
        let key = KnownKey(files)
        let share = AttachmentShare(engine)
        self.share = share
        let credentials: @Sendable () throws -> MeshCredentials = {
            let key = try key.key()
            if let shared {
                let now = Int64(environment.wallMilliseconds() / 1_000)
                return try shared.credentials(of: key, nowSeconds: now)
            }
            guard authority.hasServer else {
                return MeshCredentials(key: key, certificate: nil, authority: .none)
            }
            return Self.credentials(key, files.certificate(), settings.parameters.trustedAuthorities)
        }
        presence = PresenceSync(
            configuration: PresenceSync.Configuration(
                databaseID: databaseID, key: { try key.key() }, credentials: credentials),
            environment: environment, logger: engine.logger)
        var configuration = MeshSync.Configuration(
            databaseID: databaseID, hasServer: authority.hasServer, key: { try key.key() },
            credentials: credentials, isClockTrusted: { ClockStatus.isSynchronized() },
            ask: { peer in await state.value.withLock { $0.ask }?(peer) ?? true })
        configuration.presence = presence
        configuration.blobs = share
        mesh = MeshSync(
            replica: try engine.replica(), configuration: configuration, environment: environment,
            logger: engine.logger, changed: { state.value.withLock { $0.changed }?() })
        settings.onChange { [weak self] in self?.settle() }
    }

    /// Certificate and authorities of the last login, and the authorities that the application adds.
    private static func credentials(
        _ key: PeerKey, _ stored: StoredCertificate?, _ additional: [String]
    ) -> MeshCredentials {
        let pems = (stored?.authorities ?? []) + additional
        let keys = KeySet(pems.compactMap { CertificateAuthority.publicKey(pem: $0) })
        let der = stored.map { PeerCertificate.der(pem: $0.certificate) }
        return MeshCredentials(key: key, certificate: der, authority: .database(keys))
    }

    /// Connects the links with the rest of an open instance.
    func connect(
        ask: @escaping @Sendable (MeshPeer) async -> Bool, changed: @escaping @Sendable () -> Void
    ) {
        state.value.withLock { state in
            state.ask = ask
            state.changed = changed
        }
    }

    /// Starts linking; without an authority it warns, once.
    func start() {
        if case .none = authority {
            let isFirst = state.value.withLock { state in
                defer { state.hasWarned = true }
                return !state.hasWarned && !state.config.isQuiet
            }
            if isFirst {
                engine.logger.warning(
                    "small peers connect without encryption and prove nothing: set a private key")
            }
        }
        settle()
        mesh.start()
    }

    func stop() async { await mesh.stop() }

    /// The graph may have changed: the choice among found peers wants to know whom the links lead to.
    func graphChanged(_ graph: () -> DittoPresenceGraph) {
        guard mesh.found.isWorking != nil else { return }
        mesh.graphChanged(graph().allConnectionsByID.values.map { ($0.peer1, $0.peer2) })
    }

    /// Takes another configuration, at once.
    func apply(_ config: DittoTransportConfig) {
        state.value.withLock { $0.config = config }
        settle()
    }

    private func settle() {
        let parameters = engine.settings.parameters
        let (config, before) = state.value.withLock { ($0.config, $0.problems) }
        var settings = Mesh.Settings()
        var problems: [String] = []
        for text in config.connect.tcpServers.sorted() {
            add(MeshAddress(tcp: text), text, "connect.tcpServers", &settings, &problems)
        }
        for text in config.connect.webSocketURLs.sorted() where !isServer(text) {
            add(MeshAddress(webSocket: text), text, "connect.webSocketURLs", &settings, &problems)
        }
        for text in parameters.peerAddresses {
            add(Self.address(text), text, "transports_discovered_peers", &settings, &problems)
        }
        addListeners(config.listen, &settings, &problems)
        settings.discovery = discovery(config.peerToPeer.lan, parameters, &problems)
        if let listener = settings.discovery.listener { settings.listeners.insert(listener) }
        settings.syncGroup = config.global.syncGroup
        let retry = config.connect.retryInterval
        settings.retryInterval = .milliseconds(Int64(min(max(retry, 0.1), 86_400) * 1_000))
        settings.failureWindow = parameters.connectionFailureWindow
        settings.sendsSmallPacketsAtOnce = parameters.sendsSmallPacketsAtOnce
        for problem in problems where !before.contains(problem) {
            engine.logger.warning("a transport cannot be used", metadata: ["reason": "\(problem)"])
        }
        state.value.withLock { $0.problems = problems }
        var pace = PresenceGossip.Settings()
        pace.keepAlive = parameters.presenceKeepAlive
        pace.life = parameters.presenceLife
        pace.usesMultihop = parameters.announcesOthers
        presence.set(pace)
        mesh.configure(settings, unserved: parameters.withheldFromPeers)
    }

    /// Reads an address of `transports_discovered_peers`.
    private static func address(_ text: String) -> MeshAddress? {
        text.lowercased().hasPrefix("tcp://")
            ? MeshAddress(tcp: String(text.dropFirst("tcp://".count))) : MeshAddress(webSocket: text)
    }

    /// The ways in which peers of a network are found. Whoever is to be found has to listen, at every
    /// address.
    private func discovery(
        _ lan: DittoLANConfig, _ parameters: SystemParameters, _ problems: inout [String]
    ) -> Discovery.Settings {
        var settings = Discovery.Settings()
        for text in parameters.peerCandidates {
            guard let address = Self.address(text) else {
                problems.append("transports_discovered_peers: '\(text)' is no address of a peer")
                continue
            }
            settings.candidates.insert(address)
        }
        if lan.isEnabled {
            settings.usesMulticast = lan.isMulticastEnabled
            settings.announcesService = lan.isMdnsEnabled && parameters.announcesService
            settings.looksForServices = lan.isMdnsEnabled && parameters.looksForServices
            settings.listener = MeshListener(tcp: "[::]", port: parameters.networkPort)
        }
        settings.multicastPort = parameters.multicastPort
        settings.interval = parameters.multicastInterval
        settings.outgoing = parameters.chosenLinks
        settings.churnInterval = parameters.churnInterval
        settings.churnAge = parameters.churnAge
        settings.cooldown = parameters.chooserCooldown
        settings.blockTime = parameters.peerBlockTime
        return settings
    }

    private func add(
        _ address: MeshAddress?, _ text: String, _ place: String, _ settings: inout Mesh.Settings,
        _ problems: inout [String]
    ) {
        guard let address else { return problems.append("\(place): '\(text)' is no address of a peer") }
        settings.addresses.insert(address)
    }

    private func addListeners(
        _ listen: DittoListen, _ settings: inout Mesh.Settings, _ problems: inout [String]
    ) {
        if listen.tcp.isEnabled {
            let listener = MeshListener(tcp: listen.tcp.interfaceIP, port: Int(listen.tcp.port))
            if let listener { settings.listeners.insert(listener) }
            if listener == nil { problems.append("listen.tcp: '\(listen.tcp.interfaceIP)' is no address") }
        }
        let http = listen.http
        guard http.isEnabled, http.webSocketSync else { return }
        var files: MeshListener.Files?
        if let key = http.tlsKeyPath, let certificate = http.tlsCertificatePath {
            files = MeshListener.Files(key: key, certificate: certificate)
        } else if http.tlsKeyPath != nil || http.tlsCertificatePath != nil {
            return problems.append("listen.http: TLS needs tlsKeyPath and tlsCertificatePath")
        }
        let listener = MeshListener(webSocket: http.interfaceIP, port: Int(http.port), files: files)
        if let listener { settings.listeners.insert(listener) }
        if listener == nil { problems.append("listen.http: '\(http.interfaceIP)' is no address") }
    }

    /// Returns whether a configuration names the instance's own server, as applications of 4.x do.
    func namesServer(_ config: DittoTransportConfig) -> Bool {
        config.connect.webSocketURLs.contains(where: isServer)
    }

    /// Returns whether a URL leads to the instance's own server.
    private func isServer(_ text: String) -> Bool {
        guard case .server(_, let addresses) = authority, let url = URL(string: text),
            let named = try? WebSocketAddress(url), let own = try? WebSocketAddress(addresses.sync)
        else { return false }
        return named.host.lowercased() == own.host.lowercased() && named.port == own.port
    }

    // MARK: Conditions

    /// The condition of connections with peers; nil before there is anything to tell.
    var condition: DittoTransportCondition? {
        let seen = mesh.seen
        if !seen.listenFailures.isEmpty { return .TcpListenFailure }
        return seen.isReaching.map { $0 ? .Ok : .CannotEstablishConnection }
    }

    /// The condition of one kind of link, with the reason of the last failure.
    func condition(of kind: LinkKind) -> (condition: DittoTransportCondition, reason: String?) {
        let seen = mesh.seen
        if let failure = seen.listenFailures.first(where: { $0.key.kind == kind }) {
            return (.TcpListenFailure, "\(failure.key): \(failure.value)")
        }
        if seen.peers.contains(where: { $0.kind == kind }) { return (.Ok, nil) }
        let isOfKind = { (address: MeshAddress) in address.isWebSocket == (kind == .webSocket) }
        let failure = dialFailures.filter { isOfKind($0.key) }.min { $0.key < $1.key }?.value
        let isFailing = seen.dials.keys.contains(where: isOfKind) && seen.isReaching == false
        return (isFailing ? .CannotEstablishConnection : .Unknown, failure ?? problem)
    }

    /// The reasons why no link came of addresses, of those that were named and of those that were found.
    var dialFailures: [MeshAddress: String] {
        let (seen, found) = (mesh.seen, mesh.found)
        return found.refusals.merging(seen.dials.compactMapValues { $0 }) { _, latest in latest }
    }

    /// The condition of finding peers on networks, with the reasons of what does not work; nil if nobody is
    /// looked for.
    var discovery: (condition: DittoTransportCondition, reason: String?)? {
        let found = mesh.found
        guard let isWorking = found.isWorking else { return nil }
        // As long as nobody is linked, it matters why nothing came of those that were found. A copy of this
        // store (SYNC-0606) matters always: a person has to end it.
        let isAlone = mesh.seen.peers.isEmpty
        let refusals = found.refusals.filter { isAlone || $0.value.hasPrefix("SYNC-0606") }
        let refusal = refusals.min { $0.key < $1.key }?.value
        let reasons = found.failures + [refusal].compactMap { $0 }
        let reason = reasons.isEmpty ? nil : reasons.joined(separator: "; ")
        guard isWorking else { return (.MdnsFailure, reason) }
        return (found.hasHeard ? .Ok : .Unknown, reason)
    }

    /// The first part of the configuration that cannot be used, or the reason why nothing can.
    var problem: String? { mesh.problem ?? state.value.withLock { $0.problems.first } }
}

extension PeerLinks.Authority {
    var hasServer: Bool { if case .server = self { true } else { false } }
}

extension DittoTransportConfig {
    /// True if it names nobody to connect with and nowhere to listen.
    fileprivate var isQuiet: Bool {
        connect.tcpServers.isEmpty && connect.webSocketURLs.isEmpty && !listen.tcp.isEnabled
            && !listen.http.isEnabled && !peerToPeer.lan.isEnabled
    }
}

/// The store's key, read or created when it is first needed.
private final class KnownKey: Sendable {
    private let files: IdentityFiles
    private let known = Mutex<PeerKey?>(nil)

    init(_ files: IdentityFiles) { self.files = files }

    func key() throws -> PeerKey {
        try known.withLock { known in
            let key = try known ?? files.peerKey()
            known = key
            return key
        }
    }
}
