import Hummingbird
import NIOCore
import Testing

@testable import ServiceKit

@Suite("gzip")
struct GzipTests {
    static func packed(_ text: String) -> [UInt8] {
        let deflater = Deflater()
        var buffer = deflater.pack(ByteBuffer(string: text), .none)
        buffer.writeImmutableBuffer(deflater.pack(ByteBuffer(), .finish))
        return Array(buffer.readableBytesView)
    }

    /// Unpacks bytes that arrive in pieces of a length.
    private func unpacked(_ bytes: [UInt8], by length: Int) throws -> String {
        let inflater = Inflater()
        var text = ""
        for start in stride(from: 0, to: bytes.count, by: length) {
            inflater.feed(ByteBuffer(bytes: bytes[start..<min(start + length, bytes.count)]))
            while let piece = try inflater.next() {
                #expect(piece.readableBytes <= Limits.gzipStepBytes)
                text += String(buffer: piece)
            }
        }
        try inflater.finish()
        return text
    }

    @Test("text comes back, in whatever pieces it arrives", arguments: [1, 7, 1_000, 1_000_000])
    func roundTrip(_ length: Int) throws {
        let text = (0..<30_000).map { "line \($0 % 777) " }.joined()
        let bytes = Self.packed(text)
        #expect(bytes.count < text.utf8.count / 3)
        #expect(try unpacked(bytes, by: length) == text)
    }

    @Test("members one after another are one text")
    func members() throws {
        #expect(try unpacked(Self.packed("one ") + Self.packed("") + Self.packed("two"), by: 5) == "one two")
    }

    @Test("what ends early, is changed, or goes on with something else is refused")
    func malformed() {
        let bytes = Self.packed("a text of some length, a text of some length")
        #expect(throws: Inflater.Malformed.self) { try unpacked(Array(bytes.dropLast()), by: 9) }
        #expect(throws: Inflater.Malformed.self) { try unpacked(bytes + [1, 2, 3], by: 9) }
        #expect(throws: Inflater.Malformed.self) { try unpacked(Array("no gzip at all".utf8), by: 9) }
        var changed = bytes
        changed[bytes.count - 5] ^= 1
        #expect(throws: Inflater.Malformed.self) { try unpacked(changed, by: 9) }
    }

    @Test(
        "a whole body is unpacked in steps, and its limit holds: empty members are steps, and have no bytes")
    func steps() throws {
        let text = String(repeating: "0", count: 10 * Limits.gzipStepBytes)
        var sizes: [Int] = []
        let plain = try Inflater.unpack(ByteBuffer(bytes: Self.packed(text)), limitBytes: text.utf8.count) {
            sizes.append($0)
        }
        #expect(String(buffer: plain) == text)
        #expect(zip(sizes, sizes.dropFirst()).allSatisfy { $1 - $0 <= Limits.gzipStepBytes })
        #expect(sizes.count > 10 && sizes.last == text.utf8.count)
        let refused = #expect(throws: ServiceError.self) {
            try Inflater.unpack(
                ByteBuffer(bytes: Self.packed(text)), limitBytes: text.utf8.count - 1)
        }
        #expect(refused?.code == .bodyTooLarge)

        let member = Self.packed("")
        let count = 4 * Limits.gzipStepBytes / member.count
        let members = ByteBuffer(bytes: Array(repeating: member, count: count).flatMap { $0 })
        var empty: [Int] = []
        #expect(try Inflater.unpack(members, limitBytes: 0) { empty.append($0) }.readableBytes == 0)
        #expect(empty.count >= 4 && empty.allSatisfy { $0 == 0 })
    }

    @Test("zeros after a member are padding, wherever the pieces are cut; before the first they are no gzip")
    func padding() throws {
        let bytes = Self.packed("one ") + [0, 0] + Self.packed("two") + Array(repeating: 0, count: 20)
        for length in [1, 5, 1_000] { #expect(try unpacked(bytes, by: length) == "one two") }
        #expect(throws: Inflater.Malformed.self) { try unpacked([0] + bytes, by: 9) }
    }

    /// Reads bytes that arrive in pieces of seven.
    private func read(_ bytes: [UInt8]) throws -> [UInt8] {
        var rest = bytes[...]
        let reader = GzipReader {
            defer { rest = rest.dropFirst(7) }
            return Array(rest.prefix(7))
        }
        var text: [UInt8] = []
        while case let piece = try reader.next(), !piece.isEmpty { text += piece }
        #expect(try reader.next() == [])
        return text
    }

    @Test("a reader takes piece after piece until the end, which must be one")
    func reader() throws {
        let text = (0..<20_000).map { "row \($0 % 91),\($0)\n" }.joined()
        let bytes = Self.packed(text)
        #expect(try read(bytes + Self.packed("the end")) == Array((text + "the end").utf8))
        for wrong in [Array(bytes.dropLast()), Array(bytes.prefix(1)), bytes + [9]] {
            #expect(throws: GzipReader.Malformed.self) { try read(wrong) }
        }
    }

    @Test("each piece of a stream can be unpacked when it arrives")
    func stream() throws {
        let deflater = Deflater()
        let inflater = Inflater()
        for text in ["event: one\n", "event: two\n"] {
            inflater.feed(deflater.pack(ByteBuffer(string: text), .flush))
            #expect(try inflater.next().map { String(buffer: $0) } == text)
            #expect(try inflater.next() == nil)
        }
    }

    @Test(
        "a client takes gzip if it says so, by name or by *, with a weight above 0",
        arguments: [
            ("gzip", true), ("deflate, GZIP;q=0.5", true), ("*", true), ("br, *;q=0.1", true),
            ("x-gzip", true),
            (nil, false), ("", false), ("gzip;q=0", false), ("gzip; q=0.0, *", false), ("br", false),
            ("identity", false),
        ] as [(String?, Bool)])
    func accepts(_ field: String?, _ takes: Bool) { #expect(Response.takesGzip(field) == takes) }
}
