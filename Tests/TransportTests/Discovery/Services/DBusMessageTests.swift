import TestSupport
import Testing

@testable import Transport

@Suite("Messages of D-Bus")
struct DBusMessageTests {
    private static var announcing: DBusMessage {
        var message = DBusMessage(kind: .call)
        message.serial = 7
        message.path = "/Client3/EntryGroup1"
        message.interface = "org.freedesktop.Avahi.EntryGroup"
        message.member = "AddService"
        message.destination = "org.freedesktop.Avahi"
        message.body = [
            .int32(-1), .uint32(0), .text("mimeo-00000000000000ff"), .uint16(4040), .flag(true),
            .list(of: "ay", [.bytes("v=1".utf8), .bytes([])]), .signature("iu"), .path("/a"), .byte(9),
        ]
        return message
    }

    @Test("a message is read as it was written, and its length is known by its first 16 bytes")
    func roundTrip() {
        let bytes = Self.announcing.encoded
        #expect(DBusMessage(decoding: bytes) == Self.announcing)
        #expect(DBusMessage.length(Array(bytes.prefix(16))) == bytes.count)
        #expect(Self.announcing.body[5].octetLists == [Array("v=1".utf8), []])
    }

    @Test("the bytes are those that libdbus writes, and one in the other byte order is read")
    func knownBytes() {
        var signal = DBusMessage(kind: .signal)
        signal.serial = 2
        signal.path = "/"
        signal.interface = "a.B"
        signal.member = "C"
        signal.body = [.int32(2)]
        // Written by hand from the specification: prefix, three fields, signature, body.
        let fields: [UInt8] =
            [1, 1, 0x6F, 0, 1, 0, 0, 0, 0x2F, 0, 0, 0, 0, 0, 0, 0]
            + [2, 1, 0x73, 0, 3, 0, 0, 0, 0x61, 0x2E, 0x42, 0, 0, 0, 0, 0]
            + [3, 1, 0x73, 0, 1, 0, 0, 0, 0x43, 0, 0, 0, 0, 0, 0, 0]
            + [8, 1, 0x67, 0, 1, 0x69, 0]
        let little: [UInt8] =
            [0x6C, 4, 2, 1, 4, 0, 0, 0, 2, 0, 0, 0, 55, 0, 0, 0] + fields + [0] + [2, 0, 0, 0]
        #expect(signal.encoded == little)
        var big: [UInt8] = [0x42, 4, 2, 1, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 55]
        big += fields + [0] + [0, 0, 0, 2]
        for place in [16 + 4, 32 + 4, 48 + 4] { big.swapAt(place, place + 3) }
        #expect(DBusMessage(decoding: big) == signal)
    }

    @Test("no part of a message is one, nor one that says it is greater than 64 KiB")
    func refused() {
        let bytes = Self.announcing.encoded
        for count in bytes.indices { #expect(DBusMessage(decoding: Array(bytes[..<count])) == nil) }
        for place in [4, 12] {
            var huge = bytes
            huge.replaceSubrange(place..<place + 4, with: [0xFF, 0xFF, 0xFF, 0xFF])
            #expect(DBusMessage.length(huge) == nil)
            huge.replaceSubrange(place..<place + 4, with: [0, 0, 2, 0])
            #expect(DBusMessage.length(huge) == nil)
        }
    }

    @Test("random bytes, and messages with bytes changed, crash nothing")
    func random() {
        var random = SplitMix64(seed: 23)
        for _ in 0..<4_000 {
            var bytes = Self.announcing.encoded
            for _ in 0..<1 + random.below(4) { bytes[random.below(bytes.count)] = UInt8(random.below(256)) }
            _ = DBusMessage(decoding: bytes)
            _ = DBusMessage(decoding: [0x6C] + (0..<random.below(90)).map { _ in UInt8(random.below(4)) })
        }
    }
}
