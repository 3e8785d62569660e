import CRDT
import Exchange
import Foundation
import TestSupport
import Testing

@testable import Sync

@Suite("Frames")
struct FrameTests {
    private static func fixtures(_ version: Int) throws -> [(name: String, bytes: [UInt8])] {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/frames-\(version).txt")
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map { line in
            let parts = line.split(separator: " ")
            return (String(parts[0]), bytes(hex: String(parts[1])))
        }
    }

    private static func bytes(hex: String) -> [UInt8] {
        stride(from: 0, to: hex.utf8.count, by: 2).compactMap { place in
            let start = hex.index(hex.startIndex, offsetBy: place)
            return UInt8(hex[start..<hex.index(start, offsetBy: 2)], radix: 16)
        }
    }

    /// A frame from CBOR of our own making.
    private func decode(_ build: (inout CBORWriter) -> Void) throws(SyncError) -> Frame {
        var writer = CBORWriter()
        build(&writer)
        return try Frame(decoding: writer.bytes)
    }

    private func code(_ body: () throws -> Frame) -> String? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? SyncError)?.code
        }
    }

    @Test("what a session is soon done with is told by a frame's first bytes; nothing else is")
    func prompt() {
        for (name, frame) in Exemplars.frames {
            let isCheap =
                switch frame {
                case .operations, .progress, .upload, .acknowledged: true
                default: false
                }
            let bytes = frame.encoded()
            #expect(Session.isCheap(frame: bytes) == isCheap, "\(name)")
            let isLong =
                switch frame {
                case .chunk, .presence: (at: true, longer: true)
                case .subscribe: (at: false, longer: true)
                default: (at: false, longer: false)
                }
            #expect(Session.isLong(frame: bytes) == isLong.at, "\(name)")
            let longer = bytes + [UInt8](repeating: 0, count: 4_096)
            #expect(Session.isLong(frame: longer) == isLong.longer, "\(name)")
        }
        for bytes in [[], [0xA1], [0xA1, 0], [0xA1, 1, 8], [0x81, 0, 8], [0xA1, 0, 31], [0xA1, 0, 24]]
            as [[UInt8]]
        {
            #expect(!Session.isCheap(frame: bytes) && !Session.isLong(frame: bytes))
        }
    }

    @Test("every frame survives encoding and decoding")
    func roundTrip() throws {
        for (name, frame) in Exemplars.frames {
            #expect(try Frame(decoding: frame.encoded()) == frame, "\(name)")
        }
    }

    @Test("frames of every version are read, and written, byte for byte", arguments: [1, 2, 3, 4])
    func fixedForms(_ version: Int) throws {
        let fixtures = try Self.fixtures(version)
        let exemplars = [
            Exemplars.first, Exemplars.second, Exemplars.third, Exemplars.fourth,
        ][version - 1]
        #expect(fixtures.map(\.name) == exemplars.map(\.name))
        for (fixture, exemplar) in zip(fixtures, exemplars) {
            #expect(fixture.bytes == exemplar.frame.encoded(), "\(fixture.name)")
            #expect(try Frame(decoding: fixture.bytes) == exemplar.frame, "\(fixture.name)")
        }
    }

    @Test("what a version before told as gone of a candidate is passed over: the server says so")
    func noted() throws {
        let bytes = Self.bytes(
            hex: "a400060183500102030405060708090a0b0c0d0e0f1019012c480102030405060708028003818464"
                + "63617273410341005101a1a2a3a4a5a6a7a80000000000000009")
        let candidate = DocumentVersion(key: Exemplars.key(3), vector: VersionVector().encoded())
        #expect(
            try Frame(decoding: bytes)
                == .operations(
                    Frame.Operations(position: Exemplars.position, updates: [], candidates: [candidate])))
    }

    @Test("an unknown field is ignored, whatever it holds")
    func unknownField() throws {
        let frame = try decode { writer in
            writer.map(count: 4)
            writer.unsigned(0)
            writer.unsigned(12)
            writer.unsigned(1)
            writer.unsigned(77)
            writer.unsigned(9)
            writer.value(["a": [1, .null, 2.5]])
            writer.unsigned(1_000)
            writer.text("later")
        }
        #expect(frame == .credit(77))
    }

    @Test("an unknown message is refused by its own code")
    func unknownMessage() {
        let found = code {
            try decode { writer in
                writer.map(count: 2)
                writer.unsigned(0)
                writer.unsigned(99)
                writer.unsigned(1)
                writer.text("from the future")
            }
        }
        #expect(found == "SYNC-0102")
    }

    @Test("a field of the wrong type, a missing one, a frame without type are malformed")
    func wrongTypes() {
        let wrong = code {
            try decode { writer in
                writer.map(count: 2)
                writer.unsigned(0)
                writer.unsigned(12)
                writer.unsigned(1)
                writer.text("12")
            }
        }
        let missing = code {
            try decode { writer in
                writer.map(count: 1)
                writer.unsigned(0)
                writer.unsigned(12)
            }
        }
        let typeless = code { try decode { $0.map(count: 0) } }
        let late = code {
            try decode { writer in
                writer.map(count: 1)
                writer.unsigned(1)
                writer.unsigned(12)
            }
        }
        #expect([wrong, missing, typeless, late] == Array(repeating: "SYNC-0101", count: 4))
    }

    @Test("a page of a catch-up with a delta in it is malformed")
    func deltaInPage() {
        let page = Frame.CatchUp(id: 1, documents: [Exemplars.delta])
        #expect(code { try Frame(decoding: Frame.catchUp(page).encoded()) } == "SYNC-0101")
    }

    @Test("a frame over the limit is refused before it is read")
    func tooLarge() {
        #expect(code { try Frame(decoding: [UInt8](repeating: 0, count: 101), limit: 100) } == "SYNC-0103")
    }

    @Test("every truncation of every frame is malformed")
    func truncation() {
        for (name, frame) in Exemplars.frames {
            let bytes = frame.encoded()
            for count in bytes.indices {
                #expect(
                    code { try Frame(decoding: Array(bytes[..<count])) } == "SYNC-0101", "\(name) to \(count)"
                )
            }
            #expect(code { try Frame(decoding: bytes + [0]) } == "SYNC-0101", "\(name) with a byte more")
        }
    }

    @Test("flipped bits and random bytes decode or throw a code of ours")
    func hostileBytes() {
        var generator = SplitMix64(seed: Depth.seed &+ 1)
        let known: Set<String?> = [nil, "SYNC-0101", "SYNC-0102", "SYNC-0103"]
        for round in 0..<20_000 {
            var bytes = generator.pick(Exemplars.frames).frame.encoded()
            for _ in 0...generator.below(3) { bytes[generator.below(bytes.count)] ^= 1 << generator.below(8) }
            #expect(known.contains(code { try Frame(decoding: bytes) }), "round \(round)")
            let noise = generator.bytes(count: generator.below(40))
            #expect(known.contains(code { try Frame(decoding: noise) }), "round \(round)")
        }
    }

    @Test("a count that the bytes cannot hold allocates nothing and is malformed")
    func hugeCounts() {
        for head: [UInt8] in [[0xBB], [0x9B], [0x5B], [0x7B]] {
            let huge = head + [UInt8](repeating: 0x7F, count: 8)
            #expect(code { try Frame(decoding: huge) } == "SYNC-0101")
            #expect(code { try Frame(decoding: [0xA2, 0, 8, 1] + huge) } == "SYNC-0101")
        }
    }

    @Test("random values nest to any depth without harm")
    func deepNesting() {
        let deep = [0xA2, 0, 12, 9] + [UInt8](repeating: 0x81, count: 100_000)
        #expect(code { try Frame(decoding: deep) } == "SYNC-0101")
    }
}
