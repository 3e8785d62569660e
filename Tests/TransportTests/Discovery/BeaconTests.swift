import TestSupport
import Testing

@testable import Transport

@Suite("Beacons")
struct BeaconTests {
    private static let beacon = Beacon(
        tag: Beacon.tag(of: "boats", syncGroup: 0), peer: PeerMark(peerKey: "pkA"), boot: 0x0102, port: 4040,
        free: 32)

    @Test("a beacon is read as it was written, and is as short as a hint should be")
    func roundTrip() {
        let bytes = Self.beacon.encoded
        #expect(Beacon(decoding: bytes) == Self.beacon)
        #expect(bytes.count == 34)
        #expect(bytes.prefix(3) == [0x86, 0x01, 0x48])
    }

    @Test("the tag tells databases and groups apart, and no text can be taken for another pair")
    func tags() {
        let tags = [
            Beacon.tag(of: "boats", syncGroup: 0), Beacon.tag(of: "boats", syncGroup: 1),
            Beacon.tag(of: "boats1", syncGroup: 0), Beacon.tag(of: "", syncGroup: 0),
        ]
        #expect(Set(tags).count == tags.count)
    }

    @Test("nothing but a whole beacon in its one encoding is read")
    func refused() {
        let bytes = Self.beacon.encoded
        for count in bytes.indices { #expect(Beacon(decoding: Array(bytes[..<count])) == nil) }
        #expect(Beacon(decoding: bytes + [0]) == nil)
        #expect(Beacon(decoding: Array(repeating: 0x86, count: 200)) == nil)
        var otherVersion = bytes
        otherVersion[1] = 2
        #expect(Beacon(decoding: otherVersion) == nil)
        var portZero = Self.beacon
        portZero.port = 0
        #expect(Beacon(decoding: portZero.encoded) == nil)
        // 4040 in four bytes instead of two.
        let longPort = bytes.dropLast(5) + [0x1A, 0, 0, 0x0F, 0xC8] + bytes.suffix(2)
        #expect(Beacon(decoding: Array(longPort)) == nil)
    }

    @Test("random bytes, and beacons with a byte changed, crash nothing")
    func random() {
        var random = SplitMix64(seed: 11)
        for _ in 0..<2_000 {
            var bytes = Self.beacon.encoded
            bytes[random.below(bytes.count)] = UInt8(random.below(256))
            if let read = Beacon(decoding: bytes) { #expect(read.encoded == bytes) }
            _ = Beacon(decoding: (0..<random.below(140)).map { _ in UInt8(random.below(256)) })
        }
    }
}
