import CRDT
import Dispatch
import Foundation

/// Is told when the connection with the server begins or cannot be made.
@available(*, deprecated, message: "Query system:transports_info")
public protocol DittoDelegate: AnyObject {
    /// A transport has another condition. Called on the instance's `delegateEventQueue`.
    func dittoTransportConditionDidChange(
        ditto: Ditto, condition: DittoTransportCondition, subsystem: DittoConditionSource)
}

@available(*, deprecated, message: "Query system:transports_info")
extension DittoDelegate {
    /// Does nothing.
    public func dittoTransportConditionDidChange(
        ditto: Ditto, condition: DittoTransportCondition, subsystem: DittoConditionSource
    ) {}
}

/// A peer near this one.
@available(*, deprecated, message: "Use DittoPeer of ditto.presence.graph")
public struct DittoRemotePeer: Codable, Identifiable, Sendable {
    /// The peer's key.
    public let id: String
    /// The name of its device.
    public let deviceName: String
    /// The kinds of its connections.
    public let connections: [String]
    /// The strength of its signal; always nil.
    public let rssi: Float?

    init(_ peer: DittoPeer) {
        id = peer.peerKey
        deviceName = peer.deviceName
        connections = peer.connections.map(\.type.rawValue)
        rssi = nil
    }
}

/// The name of `DittoObserver` in 1.x.
@available(*, deprecated, message: "Use DittoObserver of ditto.presence.observe")
public typealias DittoPeersObserver = DittoObserver

extension Ditto {
    /// The delegate, which is not held.
    @available(*, deprecated, message: "Query system:transports_info")
    public weak var delegate: (any DittoDelegate)? {
        get { origin.delegate as? any DittoDelegate }
        set {
            origin.setDelegate(newValue) { delegate, ditto, condition, source in
                (delegate as? any DittoDelegate)?.dittoTransportConditionDidChange(
                    ditto: ditto, condition: condition, subsystem: source)
            }
        }
    }

    /// The queue on which the delegate is called; the main queue unless another one is set.
    @available(*, deprecated, message: "Query system:transports_info")
    public var delegateEventQueue: DispatchQueue {
        get { origin.queue }
        set { origin.queue = newValue }
    }

    /// Calls a closure with the peers around this one, until the returned observer is stopped or dropped.
    @available(*, deprecated, message: "Use ditto.presence.observe")
    public func observePeers(callback: @escaping ([DittoRemotePeer]) -> Void) -> DittoPeersObserver {
        presence.observe { graph in callback(graph.remotePeers.map { DittoRemotePeer($0) }) }
    }

    /// Calls a closure with the rows of `system:transports_info`, now and when the connection with the server
    /// changes, until the returned observer is stopped or dropped.
    @available(*, deprecated, message: "Query system:transports_info")
    public func observeTransportDiagnostics(callback: @escaping (Any) -> Void) -> DittoObserver {
        presence.observe { [weak self] _ in
            guard let self else { return }
            callback(store.engine.transportInformation().map(\.plain))
        }
    }
}
