import CRDT
import Crypto
import Foundation

/// The short name of a peer on a network: the first 8 bytes of the SHA-256 of its key. It proves nothing.
struct PeerMark: Hashable, Sendable, Comparable, CustomStringConvertible {
    let value: UInt64

    init(_ value: UInt64) { self.value = value }

    /// The mark of a public key.
    init(peerKey: String) { value = SHA256.start(Array(peerKey.utf8)) }

    /// 16 hexadecimal digits.
    var description: String { hexText(value) }

    static func < (one: PeerMark, other: PeerMark) -> Bool { one.value < other.value }

    /// The way to another mark round the circle of all values.
    func distance(to other: PeerMark) -> UInt64 { other.value &- value }
}

/// A datagram by which a peer announces itself on its network: a hint without proof.
///
/// Deterministic CBOR, `[1, tag, peer, boot, port, free]`; tag, peer and boot are byte strings of 8. The
/// address is the datagram's source.
struct Beacon: Sendable, Equatable {
    /// Tells peers of one database and one sync group from all others.
    var tag: UInt64
    var peer: PeerMark
    /// 8 random bytes of this start of the peer.
    var boot: UInt64
    /// The TCP port at which it takes links.
    var port: Int
    /// Links that it still takes.
    var free: Int

    private static let version: UInt64 = 1
    private static let parts = 6

    /// The tag of a database and a sync group.
    static func tag(of databaseID: DatabaseID, syncGroup: UInt32) -> UInt64 {
        var writer = CBORWriter()
        writer.array(count: 3)
        writer.text("mimeo beacon 1")
        writer.text(databaseID.text)
        writer.unsigned(UInt64(syncGroup))
        return SHA256.start(writer.bytes)
    }

    /// The datagram.
    var encoded: [UInt8] {
        var writer = CBORWriter()
        writer.array(count: Self.parts)
        writer.unsigned(Self.version)
        for number in [tag, peer.value, boot] {
            writer.binary(withUnsafeBytes(of: number.bigEndian) { Array($0) })
        }
        writer.unsigned(UInt64(port))
        writer.unsigned(UInt64(free))
        return writer.bytes
    }
}

extension Beacon {
    /// Reads a datagram; nil if it is none of ours, or not in the one encoding that there is.
    init?(decoding bytes: [UInt8]) {
        guard bytes.count <= Limits.beaconBytes else { return nil }
        let beacon = bytes.withUnsafeBytes { raw -> Beacon? in
            var decoder = CBORDecoder(raw)
            return try? Self.read(&decoder)
        }
        guard let beacon, beacon.encoded == bytes else { return nil }
        self = beacon
    }

    private static func read(_ decoder: inout CBORDecoder) throws(CRDTError) -> Beacon? {
        guard try decoder.array() == parts, try decoder.unsigned() == version,
            let tag = number(try decoder.binary()), let peer = number(try decoder.binary()),
            let boot = number(try decoder.binary())
        else { return nil }
        guard let port = Int(exactly: try decoder.unsigned()), (1...65_535).contains(port),
            let free = Int(exactly: try decoder.unsigned()), free <= 65_535,
            decoder.isAtEnd
        else { return nil }
        return Beacon(tag: tag, peer: PeerMark(peer), boot: boot, port: port, free: free)
    }

    private static func number(_ bytes: [UInt8]) -> UInt64? {
        guard bytes.count == 8 else { return nil }
        return bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// 16 hexadecimal digits.
func hexText(_ number: UInt64) -> String {
    let text = String(number, radix: 16)
    return String(repeating: "0", count: 16 - text.count) + text
}

extension SHA256 {
    /// The first 8 bytes of a hash.
    fileprivate static func start(_ bytes: [UInt8]) -> UInt64 {
        hash(data: bytes).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
