import TestSupport
import Testing

@testable import CRDT

/// Scans find in place the same as a careful read, whatever the documents before were like.
@Suite("Paths found in document after document")
struct FieldCursorTests {
    /// About the eight bytes that are compared at once, and about the lengths of encodings.
    private static let keys =
        ["", "a", "b", "status", "seven77", "eight888", "eight889", "nine99999"]
        + [String(repeating: "k", count: 127), String(repeating: "k", count: 128), "sta", "statusx"]
    private static let texts =
        ["", "o", "open", "opem", "opens", "sevenxx", "sevenxy", "eightxxx", "eightxxy"]
        + ["nine-xxxx", "nine-xxxy"] + [63, 64, 200].map { String(repeating: "t", count: $0) }

    private func value(_ map: MapReader, _ path: [String]) throws -> Value? {
        guard let field = try map.field(path[0]) else { return nil }
        guard path.count > 1 else { return try field.value() }
        return try field.map().flatMap { try value($0, Array(path.dropFirst())) }
    }

    private func document(_ random: inout SplitMix64, at time: UInt64) throws -> [UInt8] {
        try edited(at: time, by: time % 3 + 1) { editor in
            editor.create()
            for key in Self.keys where random.chance(60) {
                let value: Value =
                    switch random.below(5) {
                    case 0: .int(Int64(random.below(300)))
                    case 1: ["status": .string(random.pick(Self.texts)), "x": .null]
                    default: .string(random.pick(Self.texts))
                    }
                try editor.set([key], value)
            }
        }.encoded().bytes
    }

    @Test(
        "a cursor finds what a reader reads, in documents of all shapes, one after the other",
        arguments: Depth.cases(fast: 40, deep: 400))
    func agreement(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let paths = Self.keys.map { [$0] } + Self.keys.map { [$0, "status"] }
        let cursors = paths.map(FieldCursor.init(path:))
        for number in 0..<20 {
            try document(&random, at: UInt64(number + 1)).withUnsafeBytes { raw in
                let reader = try DocumentReader(raw)
                for (path, cursor) in zip(paths, cursors) {
                    let wanted = try value(reader.root, path)
                    switch cursor.find(in: reader) {
                    case .missing: #expect(wanted == nil, "seed \(seed), \(path)")
                    case .value(let value): #expect(try value.value() == wanted, "seed \(seed), \(path)")
                    case .other: break
                    }
                    for text in Self.texts {
                        guard let holds = cursor.holds(EncodedText(text), in: reader) else { continue }
                        #expect(holds == (wanted == .string(text)), "seed \(seed), \(path), \(text)")
                    }
                }
            }
        }
    }

    @Test("of texts below MAPs and beside them a cursor says more than that somebody else has to look")
    func says() throws {
        let bytes = try edited(at: 1, by: 1) { editor in
            editor.create()
            try editor.set(["status"], "open")
            try editor.set(["m"], ["status": "open"])
        }.encoded()
        try bytes.withUnsafeBytes { raw in
            let reader = try DocumentReader(raw)
            for path in [["status"], ["m", "status"]] {
                #expect(FieldCursor(path: path).holds(EncodedText("open"), in: reader) == true)
                #expect(FieldCursor(path: path).holds(EncodedText("oper"), in: reader) == false)
                #expect(FieldCursor(path: path).holds(EncodedText("opened"), in: reader) == false)
            }
            #expect(FieldCursor(path: ["none"]).holds(EncodedText("open"), in: reader) == false)
        }
    }

    @Test("damaged bytes are never read out of bounds, and never give a value that a reader does not")
    func damaged() throws {
        var random = SplitMix64(seed: Depth.seed &+ 7)
        for number in 0..<300 {
            var bytes = try document(&random, at: UInt64(number + 1))
            for _ in 0..<(1 + random.below(3)) { bytes[random.below(bytes.count)] = UInt8(random.below(256)) }
            if random.chance(30) { bytes.removeLast(random.below(bytes.count)) }
            // In memory of its own, so that a read behind its end is one that tools see.
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
            defer { copy.deallocate() }
            copy.copyBytes(from: bytes)
            guard let reader = try? DocumentReader(UnsafeRawBufferPointer(copy)) else { continue }
            for key in Self.keys {
                let cursor = FieldCursor(path: [key])
                _ = cursor.find(in: reader)
                for text in Self.texts { _ = cursor.holds(EncodedText(text), in: reader) }
            }
        }
    }

    @Test("a pattern is where its bytes are, and nowhere else", arguments: 0...20)
    func patterns(_ length: Int) {
        let bytes = (0..<length).map { UInt8($0 % 3) }
        let pattern = BytePattern(bytes)
        defer { pattern.deallocate() }
        for count in 0...28 {
            for changed in -1..<count {
                var all = (0..<count).map { UInt8($0 % 3) }
                if changed >= 0 { all[changed] = 9 }
                for place in 0...(count + 1) {
                    let isThere = place + length <= count && Array(all[place..<place + length]) == bytes
                    #expect(all.withUnsafeBytes { pattern.matches($0, at: place) } == isThere)
                }
            }
        }
    }
}
