import CRDT
import Sync

/// The peers of a presence graph as the SDK shows them.
struct RemotePeers {
    /// Each with its connections, nearest first.
    let peers: [DittoPeer]
    private let connections: [DittoConnection]

    /// - Parameter proven: the metadata of neighbours' certificates, which their links have verified.
    init(_ graph: PresenceGraph, _ proven: [String: String?]) {
        let connections = graph.connections.map { DittoConnection($0) }
        self.connections = connections
        peers = graph.peers.map { peer in
            var peer = peer
            if let metadata = proven[peer.peerKey] ?? nil { peer.identityMetadata = metadata }
            var shown = DittoPeer(peer)
            shown.connections = Self.connections(of: peer.peerKey, in: connections)
            return shown
        }
    }

    func connections(of peerKey: String) -> [DittoConnection] {
        Self.connections(of: peerKey, in: connections)
    }

    private static func connections(of key: String, in all: [DittoConnection]) -> [DittoConnection] {
        all.filter { $0.peer1 == key || $0.peer2 == key }
    }
}

extension DittoPeer {
    /// A peer without its connections. One that has said nothing yet is known by its key alone.
    init(_ peer: PresenceGraph.Peer) {
        let facts = peer.record?.facts
        self.init(
            peerKey: peer.peerKey, deviceName: facts?.deviceName ?? "",
            isConnectedToDittoServer: facts?.isConnectedToServer ?? false,
            os: facts.flatMap { $0.system.isEmpty ? nil : DittoPeerOS(name: $0.system) },
            metadata: Self.object(facts?.metadata))
        dittoSDKVersion = facts?.version
        isCompatible = peer.record.map { $0.protocolVersion >= Sync.Limits.meshVersion }
        identityMetadata = JSONObject(Self.object(peer.identityMetadata))
    }

    private static func object(_ text: String?) -> ObjectValue {
        text.flatMap { try? JSONText.parse($0) }?.objectValue ?? ObjectValue()
    }
}

extension DittoConnection {
    /// A connection: the smaller key first.
    init(_ connection: PresenceGraph.Connection) {
        type = connection.kind == .network ? .accessPoint : .webSocket
        (peer1, peer2) = (connection.first, connection.second)
        id = "\(peer1)<->\(peer2):\(type.rawValue)"
        approximateDistanceInMeters = nil
    }
}
