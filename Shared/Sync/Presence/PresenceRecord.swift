import CRDT

/// The facts that a peer tells of itself: the content of a signed record.
public struct PresenceRecord: Sendable, Hashable {
    /// A connection of the peer with another one.
    public struct Connection: Sendable, Hashable, Comparable {
        /// The other peer's key.
        public var peer: String
        /// The kind of the connection.
        public var kind: Kind

        /// A link of these parts.
        public init(peer: String, kind: Kind) {
            self.peer = peer
            self.kind = kind
        }

        /// By key, then by kind.
        public static func < (left: Connection, right: Connection) -> Bool {
            (left.peer, left.kind.rawValue) < (right.peer, right.kind.rawValue)
        }
    }

    /// The kinds of connections; the raw values are on the wire.
    public enum Kind: UInt64, Sendable, Hashable {
        /// A network that both share: a TCP connection.
        case network = 1
        /// A WebSocket.
        case webSocket = 2
    }

    /// The facts that the peer's application and system set.
    public struct Facts: Sendable, Hashable {
        /// The device's name, at most 24 bytes.
        public var deviceName = ""
        /// The operating system, as `Linux`.
        public var system = ""
        /// The version of the SDK.
        public var version = ""
        /// True while a session with a server is open.
        public var isConnectedToServer = false
        /// The application's metadata: JSON text of an object, at most 4,096 bytes.
        public var metadata = "{}"
        /// SHA-256 of the peer's certificate; nil for none.
        public var certificateHash: [UInt8]?

        /// No facts.
        public init() {}
    }

    /// The peer's key, which names it.
    public var peerKey: String
    /// Its place among the peer's records.
    public var rank: PresenceRank
    /// The facts of the application and the system.
    public var facts: Facts
    /// The protocol version that it speaks.
    public var protocolVersion: UInt64
    /// Its connections with other peers, ascending.
    public var links: [Connection]
    /// True if the peer leaves: nothing of it counts any more.
    public var isLeaving = false

    /// The deterministic CBOR of the content.
    public func encoded() -> [UInt8] {
        var writer = CBORWriter()
        writer.map(count: 10 + (facts.certificateHash == nil ? 0 : 1) + (isLeaving ? 1 : 0))
        writer.unsigned(0)
        writer.text(peerKey)
        writer.unsigned(1)
        writer.array(count: 2)
        writer.unsigned(rank.starts)
        withUnsafeBytes(of: rank.start.bigEndian) { writer.binary($0) }
        writer.unsigned(2)
        writer.unsigned(rank.version)
        for (place, text) in [facts.deviceName, facts.system, facts.version].enumerated() {
            writer.unsigned(UInt64(3 + place))
            writer.text(text)
        }
        writer.unsigned(6)
        writer.unsigned(protocolVersion)
        writer.unsigned(7)
        writer.bool(facts.isConnectedToServer)
        writer.unsigned(8)
        writer.array(count: links.count)
        for link in links {
            writer.array(count: 2)
            writer.text(link.peer)
            writer.unsigned(link.kind.rawValue)
        }
        writer.unsigned(9)
        writer.text(facts.metadata)
        if let hash = facts.certificateHash {
            writer.unsigned(10)
            writer.binary(hash)
        }
        if isLeaving {
            writer.unsigned(11)
            writer.bool(true)
        }
        return writer.bytes
    }

    /// The content of untrusted bytes; nil unless they are a record within all bounds.
    public init?(decoding bytes: [UInt8]) {
        guard bytes.count <= Limits.presenceRecordBytes else { return nil }
        let record = bytes.withUnsafeBytes { raw -> PresenceRecord? in
            var decoder = CBORDecoder(raw)
            guard let record = try? PresenceRecord(reading: &decoder), decoder.isAtEnd else { return nil }
            return record
        }
        guard let record, record.isWithinBounds else { return nil }
        self = record
    }

    /// A record of these parts.
    public init(
        peerKey: String, rank: PresenceRank, facts: Facts, protocolVersion: UInt64, links: [Connection]
    ) {
        self.peerKey = peerKey
        self.rank = rank
        self.facts = facts
        self.protocolVersion = protocolVersion
        self.links = links
    }

    private init(reading decoder: inout CBORDecoder) throws {
        self.init(
            peerKey: "", rank: PresenceRank(starts: 0, start: 0, version: 0), facts: Facts(),
            protocolVersion: 0, links: [])
        for _ in 0..<(try decoder.map()) {
            switch try decoder.unsigned() {
            case 0: peerKey = try decoder.text()
            case 1:
                _ = try decoder.array()
                rank.starts = try decoder.unsigned()
                rank.start = try decoder.binary().prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
            case 2: rank.version = try decoder.unsigned()
            case 3: facts.deviceName = try decoder.text()
            case 4: facts.system = try decoder.text()
            case 5: facts.version = try decoder.text()
            case 6: protocolVersion = try decoder.unsigned()
            case 7: facts.isConnectedToServer = try decoder.bool()
            case 8:
                for _ in 0..<(try decoder.array()) {
                    _ = try decoder.array()
                    let peer = try decoder.text()
                    guard let kind = Kind(rawValue: try decoder.unsigned()) else { continue }
                    links.append(Connection(peer: peer, kind: kind))
                }
            case 9: facts.metadata = try decoder.text()
            case 10: facts.certificateHash = try decoder.binary()
            case 11: isLeaving = try decoder.bool()
            default: _ = try decoder.value()
            }
        }
    }

    private var isWithinBounds: Bool {
        let names = [facts.system, facts.version]
        return Self.isKey(peerKey) && facts.deviceName.utf8.count <= Limits.presenceNameBytes
            && names.allSatisfy { $0.utf8.count <= Limits.presenceWordBytes }
            && links.count <= Limits.presenceLinks && links.allSatisfy { Self.isKey($0.peer) }
            && facts.certificateHash?.count ?? 32 == 32
            && facts.metadata.utf8.count <= Limits.presenceMetadataBytes
            && (try? JSONText.parse(facts.metadata))?.objectValue != nil
    }

    /// Returns whether a text can be a peer key; letters of one byte only, so that equal texts have equal
    /// bytes.
    private static func isKey(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}
