import CRDT
import Dispatch
import Foundation
import Sync
import Synchronization
import Transport

/// This peer and the peers around it.
///
/// The graph has this peer, its connection with the server, the peers that it has links with, and those that
/// they have links with, as far as connections lead. Each peer says of itself what is told of it, and signs
/// that. A change anywhere is known everywhere within seconds.
///
/// `state` guards the observers and the graphs they were last called with. They are called in order
/// (`DefaultDelivery`). `delivery` is held during a call, so that `stop()` returns only when no call is
/// active; it is recursive because a handler may stop its own observer.
public final class DittoPresence: Sendable {
    /// Facts about this peer from other parts of the SDK.
    struct Source: Sendable {
        /// Its public key.
        var peerKey: @Sendable () -> String
        /// Its device name.
        var deviceName: @Sendable () -> String
        /// Returns whether a session with the server is open.
        var isConnected: @Sendable () -> Bool
        /// The peers at the other ends of its links.
        var linked: @Sendable () -> [MeshPeer]
        /// The peers that links lead to; nil before there was a session.
        var around: @Sendable () -> PresenceGraph?
        /// Tells other peers what is so of this one.
        var tell: @Sendable (PresenceRecord.Facts) -> Void
        /// The time during which changes are collected.
        var debounce: @Sendable () -> Duration
    }

    private struct Watcher: Sendable {
        let handler: Handler<(DittoPresenceGraph) -> Void>
        var told: DittoPresenceGraph?
    }

    private struct State {
        var metadata = ObjectValue()
        var requestHandler: Handler<DittoConnectionRequestHandler>?
        var next = 0
        var watchers: [Int: Watcher] = [:]
        var isDue = false
    }

    private let source: Source
    private let state = Mutex(State())
    private let delivery = NSRecursiveLock()
    private let queue = DispatchQueue(label: "ditto.presence")

    init(_ source: Source) { self.source = source }

    /// The present graph.
    public var graph: DittoPresenceGraph {
        let key = source.peerKey()
        var local = DittoPeer(
            peerKey: key, deviceName: source.deviceName(), isConnectedToDittoServer: source.isConnected(),
            os: .current, metadata: state.withLock { $0.metadata })
        guard let around = source.around() else {
            return DittoPresenceGraph(localPeer: local, remotePeers: [])
        }
        let proven = Dictionary(source.linked().map { ($0.peerKey, $0.identityMetadata) }) { first, _ in first
        }
        let parts = RemotePeers(around, proven)
        local.connections = parts.connections(of: key)
        return DittoPresenceGraph(localPeer: local, remotePeers: parts.peers)
    }

    /// The facts that other peers are told of this one.
    private var facts: PresenceRecord.Facts {
        var facts = PresenceRecord.Facts()
        facts.deviceName = source.deviceName()
        facts.system = DittoPeerOS.current.stringValue
        facts.version = Ditto.version
        facts.isConnectedToServer = source.isConnected()
        facts.metadata = JSONText.print(.object(state.withLock { $0.metadata }), sortedKeys: true)
        return facts
    }

    /// Asks the application whether a small peer may link; without a handler all may.
    func allows(_ peer: MeshPeer) async -> Bool {
        guard let handler = state.withLock({ $0.requestHandler }) else { return true }
        let remote = DittoPeer(
            PresenceGraph.Peer(
                peerKey: peer.peerKey, record: peer.record, identityMetadata: peer.identityMetadata, hops: 1))
        return await handler.call(
            DittoConnectionRequest(remote, peer.kind == .tcp ? .accessPoint : .webSocket)) == .allow
    }

    /// Calls a handler, on the main queue where it is served, with the present graph and after each change,
    /// until the returned observer is stopped or dropped. Changes are collected for
    /// `presence_debounce_interval`.
    public func observe(
        didChangeHandler: @escaping (DittoPresenceGraph) -> Void
    ) -> DittoObserver {
        let handler = Handler(didChangeHandler)
        let number = state.withLock { state in
            state.next += 1
            state.watchers[state.next] = Watcher(handler: handler)
            return state.next
        }
        DefaultDelivery.shared.async { [weak self] in self?.tell() }
        return DittoObserver { [weak self] in
            guard let self else { return }
            state.withLock { state in _ = state.watchers.removeValue(forKey: number) }
            delivery.withLock {}
        }
    }

    /// The application's metadata about this peer for other peers.
    public var peerMetadata: [String: Any?] { state.withLock { $0.metadata }.plain }

    /// The metadata as JSON.
    public var peerMetadataJSONData: Data {
        Data(JSONText.print(.object(state.withLock { $0.metadata }), sortedKeys: true).utf8)
    }

    /// Replaces the application's metadata. It lasts until the instance closes.
    /// - Throws: `validationError`: `.notJSONCompatible` for a value that JSON cannot hold,
    ///   `.sizeLimitExceeded` above 4,096 bytes of JSON, `.depthLimitExceeded` below 64 levels.
    public func setPeerMetadata(_ peerMetadata: [String: Any?]) throws {
        do {
            try set(try PeerMetadata.object(peerMetadata))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// As `setPeerMetadata`, from JSON.
    /// - Throws: also `validationError`: `.invalidJSON`, `.notADictionary`.
    public func setPeerMetadataJSONData(_ jsonData: Data) throws {
        do {
            try set(try PeerMetadata.object(json: String(decoding: jsonData, as: UTF8.self)))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Decides about each link with a small peer, whoever dialed, before anything is synced; without it all
    /// may. Both sides must allow. No answer in 10 seconds denies; a denied peer tries again, later each
    /// time.
    public var connectionRequestHandler: DittoConnectionRequestHandler? {
        get { state.withLock { $0.requestHandler }?.call }
        set {
            let handler = newValue.map(Handler.init)
            state.withLock { $0.requestHandler = handler }
        }
    }

    /// Something of this peer may have changed: others are told, and the own observers.
    func changed() {
        source.tell(facts)
        graphChanged()
    }

    /// The graph may have changed.
    func graphChanged() {
        let isFirst = state.withLock { state in
            guard !state.watchers.isEmpty, !state.isDue else { return false }
            state.isDue = true
            return true
        }
        guard isFirst else { return }
        queue.asyncAfter(deadline: .now() + source.debounce() / .seconds(1)) { [weak self] in
            self?.state.withLock { $0.isDue = false }
            DefaultDelivery.shared.async { [weak self] in self?.tell() }
        }
    }

    /// Removes all observers.
    func stopAll() {
        state.withLock { $0.watchers = [:] }
        delivery.withLock {}
    }

    private func set(_ metadata: ObjectValue) throws {
        try PeerMetadata.check(metadata, bytes: Limits.presenceMetadataBytes)
        state.withLock { $0.metadata = metadata }
        changed()
    }

    /// Calls the observers whose last graph was different.
    private func tell() {
        for number in state.withLock({ $0.watchers.keys.sorted() }) {
            delivery.withLock {
                let graph = graph
                let handler = state.withLock { state -> Handler<(DittoPresenceGraph) -> Void>? in
                    guard let watcher = state.watchers[number], watcher.told != graph else { return nil }
                    state.watchers[number]?.told = graph
                    return watcher.handler
                }
                handler?.call(graph)
            }
        }
    }
}

/// Decides whether a small peer may connect.
public typealias DittoConnectionRequestHandler =
    (_ connectionRequest: DittoConnectionRequest) async -> DittoConnectionRequestAuthorization

/// The answer to a connection request.
public enum DittoConnectionRequestAuthorization: Equatable, Sendable {
    /// The peer may connect.
    case allow
    /// The peer may not connect; it may ask again.
    case deny
}

/// A small peer that wants to connect.
public final class DittoConnectionRequest: Sendable {
    /// Its public key.
    public let peerKeyString: String
    /// The kind of connection it wants.
    public let connectionType: DittoConnectionType
    private let metadata: JSONObject
    private let identityMetadata: JSONObject

    init(_ peer: DittoPeer, _ connectionType: DittoConnectionType) {
        peerKeyString = peer.peerKey
        self.connectionType = connectionType
        metadata = peer.metadata
        identityMetadata = peer.identityMetadata
    }

    /// Its application's metadata.
    public var peerMetadata: [String: Any?] { metadata.object.plain }
    /// The metadata as JSON.
    public var peerMetadataJSONData: Data { Data(metadata.text.utf8) }
    /// The metadata from the provider of its login.
    public var identityServiceMetadata: [String: Any?] { identityMetadata.object.plain }
    /// The provider's metadata as JSON.
    public var identityServiceMetadataJSONData: Data { Data(identityMetadata.text.utf8) }
}
