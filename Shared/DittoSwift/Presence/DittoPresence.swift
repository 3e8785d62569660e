import CRDT
import Dispatch
import Foundation
import Synchronization

/// Who this peer is, and who is there.
///
/// This version connects with servers only: the graph has this peer, and whether it is connected with its
/// server; there are no others in it.
///
/// `state` guards the observers and what they were told; they are called on `queue`, in order. `delivery` is
/// held while one is called, so that `stop()` returns only when no call is under way; it is recursive, since
/// a handler may stop its own observer.
public final class DittoPresence: Sendable {
    /// What is known of this peer elsewhere.
    struct Source: Sendable {
        /// Its public key.
        var peerKey: @Sendable () -> String
        /// What it is called.
        var deviceName: @Sendable () -> String
        /// Whether a session with the server is open.
        var isConnected: @Sendable () -> Bool
        /// How long changes are collected.
        var debounce: @Sendable () -> Duration
    }

    private struct Watcher: Sendable {
        let handler: @Sendable (DittoPresenceGraph) -> Void
        var told: DittoPresenceGraph?
    }

    private struct State {
        var metadata = ObjectValue()
        var requestHandler: DittoConnectionRequestHandler?
        var next = 0
        var watchers: [Int: Watcher] = [:]
        var isDue = false
    }

    private let source: Source
    private let state = Mutex(State())
    private let delivery = NSRecursiveLock()
    private let queue = DispatchQueue(label: "ditto.presence")

    init(_ source: Source) { self.source = source }

    /// Who is there now.
    public var graph: DittoPresenceGraph {
        DittoPresenceGraph(
            localPeer: DittoPeer(
                peerKey: source.peerKey(), deviceName: source.deviceName(),
                isConnectedToDittoServer: source.isConnected(), os: .current,
                metadata: state.withLock { $0.metadata }),
            remotePeers: [])
    }

    /// Calls a handler, on a queue of the SDK, with the graph as it is now and whenever it has changed, until
    /// the returned observer is stopped or dropped. Changes are collected for
    /// `presence_debounce_interval`.
    @preconcurrency
    public func observe(
        didChangeHandler: @escaping @Sendable (DittoPresenceGraph) -> Void
    ) -> DittoObserver {
        let number = state.withLock { state in
            state.next += 1
            state.watchers[state.next] = Watcher(handler: didChangeHandler)
            return state.next
        }
        queue.async { [weak self] in self?.tell() }
        return DittoObserver { [weak self] in
            guard let self else { return }
            state.withLock { state in _ = state.watchers.removeValue(forKey: number) }
            delivery.withLock {}
        }
    }

    /// What the application tells other peers about this one.
    public var peerMetadata: [String: Any?] { state.withLock { $0.metadata }.plain }

    /// The same as JSON.
    public var peerMetadataJSONData: Data {
        Data(JSONText.print(.object(state.withLock { $0.metadata }), sortedKeys: true).utf8)
    }

    /// Replaces what the application tells. Lasts until the instance closes.
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

    /// Decides about small peers that want to connect; none means that all may. This version has no
    /// connections with small peers, so nobody asks it yet.
    @preconcurrency public var connectionRequestHandler: DittoConnectionRequestHandler? {
        get { state.withLock { $0.requestHandler } }
        set { state.withLock { $0.requestHandler = newValue } }
    }

    /// Something of the graph may have changed.
    func changed() {
        let isFirst = state.withLock { state in
            guard !state.watchers.isEmpty, !state.isDue else { return false }
            state.isDue = true
            return true
        }
        guard isFirst else { return }
        queue.asyncAfter(deadline: .now() + source.debounce() / .seconds(1)) { [weak self] in
            self?.state.withLock { $0.isDue = false }
            self?.tell()
        }
    }

    /// Nobody is told anything more.
    func stopAll() {
        state.withLock { $0.watchers = [:] }
        delivery.withLock {}
    }

    private func set(_ metadata: ObjectValue) throws {
        try PeerMetadata.check(metadata, bytes: Limits.presenceMetadataBytes)
        state.withLock { $0.metadata = metadata }
        changed()
    }

    /// Tells those who were told something else last. On the queue.
    private func tell() {
        let graph = graph
        for number in state.withLock({ $0.watchers.keys.sorted() }) {
            delivery.withLock {
                let handler = state.withLock { state -> (@Sendable (DittoPresenceGraph) -> Void)? in
                    guard let watcher = state.watchers[number], watcher.told != graph else { return nil }
                    state.watchers[number]?.told = graph
                    return watcher.handler
                }
                handler?(graph)
            }
        }
    }
}

/// Decides whether a small peer may connect.
public typealias DittoConnectionRequestHandler =
    @Sendable (_ connectionRequest: DittoConnectionRequest) async -> DittoConnectionRequestAuthorization

/// What a connection request comes to.
public enum DittoConnectionRequestAuthorization: Equatable, Sendable {
    /// The peer may connect.
    case allow
    /// It may not; it may ask again.
    case deny
}

/// A small peer that wants to connect.
public final class DittoConnectionRequest: Sendable {
    /// Its public key.
    public let peerKeyString: String
    /// How it wants to connect.
    public let connectionType: DittoConnectionType
    private let metadata: JSONObject
    private let identityMetadata: JSONObject

    init(_ peer: DittoPeer, _ connectionType: DittoConnectionType) {
        peerKeyString = peer.peerKey
        self.connectionType = connectionType
        metadata = peer.metadata
        identityMetadata = peer.identityMetadata
    }

    /// What its application tells about it.
    public var peerMetadata: [String: Any?] { metadata.object.plain }
    /// The same as JSON.
    public var peerMetadataJSONData: Data { Data(metadata.text.utf8) }
    /// What the provider of its login tells about it.
    public var identityServiceMetadata: [String: Any?] { identityMetadata.object.plain }
    /// The same as JSON.
    public var identityServiceMetadataJSONData: Data { Data(identityMetadata.text.utf8) }
}
