import CRDT
import Identity
import Transport

/// Linked peers as parts of a presence graph.
enum LinkedPeers {
    /// The peers at the other ends of this peer's links, each with its connections.
    static func peers(_ linked: [MeshPeer], of ownKey: String) -> [DittoPeer] {
        linked.map { peer in
            var remote = DittoPeer(
                peerKey: peer.peerKey, deviceName: "", isConnectedToDittoServer: false, os: nil,
                metadata: ObjectValue())
            remote.dittoSDKVersion = nil
            remote.identityMetadata = JSONObject(
                peer.identityMetadata.flatMap { try? JSONText.parse($0) }?.objectValue ?? ObjectValue())
            remote.connections = [connection(peer, of: ownKey)]
            return remote
        }
    }

    /// A link as a connection: the smaller key first.
    static func connection(_ peer: MeshPeer, of ownKey: String) -> DittoConnection {
        let type: DittoConnectionType = peer.kind == .tcp ? .accessPoint : .webSocket
        let (first, second) = (min(ownKey, peer.peerKey), max(ownKey, peer.peerKey))
        return DittoConnection(
            id: "\(first)<->\(second):\(type.rawValue)", type: type, peer1: first, peer2: second,
            approximateDistanceInMeters: nil)
    }
}

extension DittoConnection {
    fileprivate init(
        id: String, type: DittoConnectionType, peer1: String, peer2: String,
        approximateDistanceInMeters: Double?
    ) {
        self.id = id
        self.type = type
        self.peer1 = peer1
        self.peer2 = peer2
        self.approximateDistanceInMeters = approximateDistanceInMeters
    }
}
