/// The presence that one peer knows: the peers that connections lead to from it.
public struct PresenceGraph: Sendable, Equatable {
    /// A peer.
    public struct Peer: Sendable, Equatable {
        /// Its key.
        public var peerKey: String
        /// Its record; nil for a neighbour that has said nothing yet.
        public var record: PresenceRecord?
        /// The metadata of its certificate, which was verified: JSON text; nil if that is unknown.
        public var identityMetadata: String?
        /// The connections on the way to it; 1 for a neighbour.
        public var hops: Int

        /// A peer of these parts.
        public init(peerKey: String, record: PresenceRecord?, identityMetadata: String?, hops: Int) {
            self.peerKey = peerKey
            self.record = record
            self.identityMetadata = identityMetadata
            self.hops = hops
        }
    }

    /// A connection of two peers, the same at both ends.
    public struct Connection: Sendable, Hashable, Comparable {
        /// The smaller key.
        public let first: String
        /// The greater key.
        public let second: String
        /// Its kind.
        public let kind: PresenceRecord.Kind

        /// The connection of two peers, in either order.
        public init(_ one: String, _ other: String, _ kind: PresenceRecord.Kind) {
            (first, second) = one < other ? (one, other) : (other, one)
            self.kind = kind
        }

        /// By keys, then by kind.
        public static func < (left: Connection, right: Connection) -> Bool {
            (left.first, left.second, left.kind.rawValue) < (right.first, right.second, right.kind.rawValue)
        }
    }

    /// The peers that connections lead to, nearest first, then by key.
    public var peers: [Peer]
    /// The connections among them and this peer, ascending.
    public var connections: [Connection]

    /// Walks from a peer along the connections that both ends name.
    /// - Parameters:
    ///   - own: the key of the peer that looks.
    ///   - links: its links; they need no other word.
    ///   - record: the record of a peer; nil if there is none.
    init(
        from own: String, links: [PresenceRecord.Connection], atMost limit: Int, hops most: Int = .max,
        identityMetadata: (String) -> String?, record: (String) -> PresenceRecord?
    ) {
        var peers: [Peer] = []
        var found: Set<String> = [own]
        var edge: [(key: String, links: [PresenceRecord.Connection])] = [(own, links)]
        var all: Set<Connection> = []
        var hops = 0
        while !edge.isEmpty, peers.count < limit, hops < most {
            hops += 1
            var next: Set<String> = []
            for (key, links) in edge {
                for link in links where link.peer != key && (key != own || link.peer != own) {
                    let isOwn = key == own
                    // The own links are known here; of others both ends have to speak.
                    guard isOwn || link.peer != own,
                        isOwn || record(link.peer)?.names(key, link.kind) ?? false
                    else { continue }
                    all.insert(Connection(key, link.peer, link.kind))
                    if !found.contains(link.peer) { next.insert(link.peer) }
                }
            }
            edge = []
            for key in next.sorted() where peers.count < limit {
                found.insert(key)
                let record = record(key)
                peers.append(
                    Peer(
                        peerKey: key, record: record, identityMetadata: identityMetadata(key), hops: hops))
                edge.append((key, record?.links ?? []))
            }
        }
        // The outermost name connections among each other too.
        for (key, links) in edge where most == .max || hops < most {
            for link in links where found.contains(link.peer) && link.peer != own {
                if record(link.peer)?.names(key, link.kind) ?? false {
                    all.insert(Connection(key, link.peer, link.kind))
                }
            }
        }
        self.peers = peers
        connections = all.filter { found.contains($0.first) && found.contains($0.second) }.sorted()
    }
}

extension PresenceRecord {
    /// Returns whether the peer says that it has this connection.
    func names(_ peer: String, _ kind: Kind) -> Bool { links.contains { $0.peer == peer && $0.kind == kind } }
}
