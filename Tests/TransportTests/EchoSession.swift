import CRDT
import Exchange
import Identity
import Logging
import Machine
import NIOCore
import NIOPosix
import Sync
import Synchronization
import TestSupport
import Testing

@testable import Transport

/// A conversation in the place of a session: greets, and tells its name once it is open.
final class EchoSession: LinkSession {
    private struct State {
        var isOver = false
        var hasGreeted = false
    }

    private let start: LinkStart
    private let peer: EchoPeer
    private let state = Mutex(State())

    init(_ start: LinkStart, _ peer: EchoPeer) {
        self.start = start
        self.peer = peer
        start.channel.begin { [weak self] arrival in self?.arrived(arrival) }
        if start.isDialer { start.channel.post(peer.greeting) { _ in } }
    }

    private func arrived(_ arrival: FrameArrival) {
        guard case .frame(let frame, let taken) = arrival else { return over(SessionPump.lost) }
        defer { taken() }
        if case .close(let reason)? = try? Frame(decoding: frame) { return over(reason) }
        if case .certificate(let der)? = try? Frame(decoding: frame), let verify = start.verify {
            if let identity = try? verify(der) { start.renewed(identity) }
            return
        }
        let isFirst = state.withLock { state in
            defer { state.hasGreeted = true }
            return !state.hasGreeted
        }
        guard isFirst else { return peer.heard(frame) }
        guard let greeting = EchoPeer.greeting(frame) else {
            return finish(SyncError(.malformedFrame, "no greeting"))
        }
        start.greeted(greeting)
    }

    func open() {
        if !start.isDialer { start.channel.post(peer.greeting) { _ in } }
        start.channel.post(Array(peer.name.utf8)) { _ in }
    }

    func renew(_ certificate: [UInt8]) {
        start.channel.post(Frame.certificate(certificate).encoded()) { _ in }
        start.told(certificate)
    }

    func finish(_ reason: SyncError) {
        start.channel.post(Frame.close(reason).encoded()) { _ in }
        over(reason)
    }

    private func over(_ reason: SyncError) {
        let isFirst = state.withLock { state in
            defer { state.isOver = true }
            return !state.isOver
        }
        guard isFirst else { return }
        Task { [start] in
            await start.channel.end(code: 1_000, reason: reason.code)
            start.ended(reason)
        }
    }
}

/// A peer with links and no store: what it was told is a list of texts.
final class EchoPeer: Sendable {
    let name: String
    let key: PeerKey
    let greeting: [UInt8]
    private let texts = Mutex<[String]>([])
    private let made = Mutex<Mesh?>(nil)
    private let denied = Mutex<Set<String>>([])

    /// The settings of a peer that differ from one test to the next.
    struct Options: Sendable {
        var key = PeerKey()
        var named: String?
        var boot = LinkTable.Boot(count: 1, nonce: 1)
        var databaseID: DatabaseID = "boats"
        var times = LinkConnection.Times()
        var nowSeconds: @Sendable () -> Int64 = SystemClock.seconds
        /// The clock by which its own certificate was issued.
        var issuedSeconds: @Sendable () -> Int64 = SystemClock.seconds
        /// The authority as of now, where it changes.
        var authority: (@Sendable () -> MeshAuthority)?
    }

    init(_ name: String, _ authority: MeshAuthority, _ options: Options = Options()) {
        self.name = name
        key = options.key
        let own = LinkTable.Remote(peerKey: options.key.publicKeyString, boot: options.boot)
        let text = "\(options.named ?? own.peerKey) \(options.boot.count) \(options.boot.nonce)"
        greeting = Array(text.utf8)
        let security = LinkSecurity(databaseID: options.databaseID, nowSeconds: options.nowSeconds) {
            let authority = options.authority?() ?? authority
            let certificate = try authority.ownCertificate(
                of: options.key, databaseID: options.databaseID, nowSeconds: options.issuedSeconds())
            return MeshCredentials(key: options.key, certificate: certificate?.der, authority: authority)
        }
        let mesh = Mesh(
            Mesh.Parts(
                databaseID: options.databaseID, own: own,
                sockets: LinkSockets(security: security, times: options.times), environment: .system,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                begin: { EchoSession($0, self) },
                ask: { peer in !self.denied.withLock { $0.contains(peer.peerKey) } }, changed: {}))
        made.withLock { $0 = mesh }
    }

    var mesh: Mesh {
        guard let mesh = made.withLock({ $0 }) else { preconditionFailure("it is made at once") }
        return mesh
    }
    var heardTexts: [String] { texts.withLock { $0 } }
    var linked: [String] { mesh.seen.peers.map(\.peerKey) }

    func deny(_ peer: EchoPeer) { denied.withLock { _ = $0.insert(peer.key.publicKeyString) } }
    func allowAll() { denied.withLock { $0 = [] } }

    func heard(_ frame: [UInt8]) {
        texts.withLock { $0.append(String(decoding: frame, as: UTF8.self)) }
    }

    static func greeting(_ frame: [UInt8]) -> LinkGreeting? {
        let parts = String(decoding: frame, as: UTF8.self).split(separator: " ")
        guard parts.count == 3, let count = UInt64(parts[1]), let nonce = UInt64(parts[2]) else { return nil }
        return LinkGreeting(
            peerKey: String(parts[0]), boot: LinkTable.Boot(count: count, nonce: nonce), record: nil)
    }

    /// Starts with addresses to dial and a listener; returns the listener's port.
    func start(
        dial addresses: [MeshAddress] = [], listen kind: LinkKind? = nil, port: Int = 0,
        retry: Duration = .milliseconds(100)
    ) async throws -> Int {
        var settings = Mesh.Settings()
        settings.addresses = Set(addresses)
        settings.retryInterval = retry
        let listener: MeshListener? =
            switch kind {
            case .tcp?: MeshListener(tcp: "127.0.0.1", port: port)
            case .webSocket?: MeshListener(webSocket: "127.0.0.1", port: port)
            case nil: nil
            }
        settings.listeners = Set([listener].compactMap { $0 })
        mesh.configure(settings)
        mesh.start()
        guard let listener else { return 0 }
        try await until { mesh.seen.ports[listener] != nil }
        return try #require(mesh.seen.ports[listener])
    }
}

/// Waits until a condition holds; fails the test after a while.
func until(
    _ condition: () -> Bool, within limit: Duration = .seconds(20),
    sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let end = ContinuousClock.now + limit
    while !condition() {
        guard ContinuousClock.now < end else {
            Issue.record("it did not come true in \(limit)", sourceLocation: sourceLocation)
            return
        }
        try await Task.sleep(for: .milliseconds(5))
    }
}

func tcp(_ port: Int) -> MeshAddress {
    guard let address = MeshAddress(tcp: "127.0.0.1:\(port)") else { preconditionFailure("a port") }
    return address
}

func webSocket(_ port: Int) -> MeshAddress {
    guard let address = MeshAddress(webSocket: "ws://127.0.0.1:\(port)") else {
        preconditionFailure("a port")
    }
    return address
}
