import Foundation
import TestSupport
import Testing

@testable import Mimeo

@Suite("Unpacking gzip")
struct GunzipTests {
    /// What the program `gzip` makes of bytes: a writer that is not ours.
    private func packed(_ bytes: [UInt8], _ options: [String]) throws -> [UInt8] {
        try withTemporaryDirectory { directory in
            let file = directory.appendingPathComponent("name of it")
            try Data(bytes).write(to: file)
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["gzip"] + options + [file.path]
            try process.run()
            process.waitUntilExit()
            return [UInt8](try Data(contentsOf: directory.appendingPathComponent("name of it.gz")))
        }
    }

    private func unpacked(_ bytes: [UInt8], chunk: Int = 7) throws -> [UInt8] {
        var rest = bytes[...]
        var gunzip = Gunzip(name: "f.gz") {
            defer { rest = rest.dropFirst(chunk) }
            return Array(rest.prefix(chunk))
        }
        var text: [UInt8] = []
        while case let piece = try gunzip.next(), !piece.isEmpty { text += piece }
        return text
    }

    private static let texts: [[UInt8]] = [
        [], Array("a".utf8), Array(String(repeating: "id,name\n", count: 9_000).utf8),
        (0..<70_000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 7 ^ $0) },
        (0..<40_000).map { _ in UInt8.random(in: 0...255) },
    ]

    @Test("what gzip packs is unpacked, fast or best", arguments: [["-1"], ["-9"], ["-6", "-n"]])
    func roundTrip(options: [String]) throws {
        for text in Self.texts {
            let packed = try packed(text, options)
            #expect(try unpacked(packed, chunk: 4_096) == text)
        }
    }

    @Test("several members are one text, and zeros after the last one are padding")
    func members() throws {
        let (one, two) = (try packed(Array("one".utf8), []), try packed(Array("two".utf8), []))
        #expect(try unpacked(one + two + [0, 0, 0]) == Array("onetwo".utf8))
    }

    @Test("blocks without compression are copied")
    func stored() throws {
        let file: [UInt8] = [
            0x1F, 0x8B, 8, 0x1E, 0, 0, 0, 0, 0, 3, 2, 0, 9, 9, 0x61, 0, 0x62, 0, 0, 0, 1, 2, 0, 0xFD, 0xFF,
            0x68,
            0x69, 0xAC, 0x2A, 0x93, 0xD8, 2, 0, 0, 0,
        ]
        #expect(try unpacked(file) == Array("hi".utf8))
    }

    @Test("data that is cut off, changed or followed by other data is an error, never other text")
    func damaged() throws {
        let text = Self.texts[3]
        let packed = try packed(text, [])
        for length in stride(from: 0, to: packed.count, by: Depth.pick(fast: 997, deep: 41)) {
            #expect(throws: MimeoError.self) { try unpacked(Array(packed.prefix(length)), chunk: 4_096) }
        }
        for place in stride(from: 20, to: packed.count, by: Depth.pick(fast: 997, deep: 41)) {
            var wrong = packed
            wrong[place] ^= 0x10
            #expect(throws: MimeoError.self) { try unpacked(wrong, chunk: 4_096) }
        }
        #expect(throws: MimeoError.self) { try unpacked(packed + [1], chunk: 4_096) }
    }
}
