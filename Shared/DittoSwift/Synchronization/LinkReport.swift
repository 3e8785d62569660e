import CRDT
import Transport

/// The links of a peer, for the command line.
package struct LinkReport: Sendable {
    /// A link: the other peer's key, `tcp` or `websocket`, and whether this side dialed.
    package struct Link: Sendable {
        package let peerKey: String
        package let kind: String
        package let isDialer: Bool
    }

    /// The open links, oldest first.
    package let links: [Link]
    /// The addresses that this peer listens at, with the port in use.
    package let listening: [(address: String, port: Int)]
    /// The addresses that cannot be listened at, or are dialed in vain, with the reason.
    package let failures: [(address: String, reason: String)]
    /// The addresses of peers that were found on networks.
    package let found: [String]
    /// The reasons why a way of finding peers does not work.
    package let findingFailures: [String]

    init(_ peerLinks: PeerLinks) {
        let seen = peerLinks.mesh.seen
        links = seen.peers.map { peer in
            Link(
                peerKey: peer.peerKey, kind: peer.kind == .tcp ? "tcp" : "websocket",
                isDialer: peer.isDialer)
        }
        listening = seen.ports.map { (address: $0.key.description, port: $0.value) }
            .sorted { $0.address < $1.address }
        let listeners = seen.listenFailures.map { (address: $0.key.description, reason: $0.value) }
        let discovery = peerLinks.mesh.found
        let dials = peerLinks.dialFailures.map { (address: $0.key.description, reason: $0.value) }
        found = discovery.addresses.map(\.description)
        findingFailures = discovery.failures
        failures = (listeners + dials).sorted { $0.address < $1.address }
    }
}
