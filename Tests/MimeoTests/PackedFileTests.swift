import Foundation
import TestSupport
import Testing

@testable import Mimeo

@Suite("Packed files")
struct PackedFileTests {
    /// The output of the program `gzip`: a writer that is not ours.
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

    /// The text of a file with these bytes.
    private func unpacked(_ bytes: [UInt8]) throws -> [UInt8] {
        try withTemporaryDirectory { directory in
            let file = directory.appendingPathComponent("f.gz")
            try Data(bytes).write(to: file)
            var rest = try ImportSource(path: file.path).text(encoding: nil).open()
            var text: [UInt8] = []
            while let byte = try rest.next() { text.append(byte) }
            return text
        }
    }

    /// Texts that no byte order mark begins.
    private static let texts: [[UInt8]] = [
        [], Array("a".utf8), Array(String(repeating: "id,name\n", count: 9_000).utf8),
        (1..<70_000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 7 ^ $0) },
        Array("random".utf8) + (0..<40_000).map { _ in UInt8.random(in: 0x20...255) },
    ]

    @Test("a file that gzip packed is unpacked, fast or best", arguments: [["-1"], ["-9"], ["-6", "-n"]])
    func roundTrip(options: [String]) throws {
        for text in Self.texts { #expect(try unpacked(try packed(text, options)) == text) }
    }

    @Test("several members are one text, and zeros after the last one are padding")
    func members() throws {
        let (one, two) = (try packed(Array("one".utf8), []), try packed(Array("two".utf8), []))
        #expect(try unpacked(one + two + [0, 0, 0]) == Array("onetwo".utf8))
    }

    @Test("the optional fields of a header are passed over, and blocks without compression copied")
    func stored() throws {
        let header: [UInt8] = [
            0x1F, 0x8B, 8, 0x1E, 0, 0, 0, 0, 0, 3, 2, 0, 9, 9, 0x61, 0, 0x62, 0, 0xF8, 0x61,
        ]
        let block: [UInt8] = [1, 2, 0, 0xFD, 0xFF, 0x68, 0x69, 0xAC, 0x2A, 0x93, 0xD8, 2, 0, 0, 0]
        #expect(try unpacked(header + block) == Array("hi".utf8))
    }

    @Test("data that is cut off, changed or followed by other data is an error, never other text")
    func damaged() throws {
        let text = Self.texts[3]
        let packed = try packed(text, [])
        let step = Depth.pick(fast: 997, deep: 41)
        // Two bytes make a file a packed one.
        let cut = stride(from: 2, to: packed.count, by: step).map { Array(packed.prefix($0)) }
        let changed = stride(from: 20, to: packed.count, by: step).map { place in
            var wrong = packed
            wrong[place] ^= 0x10
            return wrong
        }
        for wrong in cut + changed + [packed + [1]] {
            #expect {
                try unpacked(wrong)
            } throws: {
                ($0 as? MimeoError)?.code == .fileMalformed
            }
        }
    }
}
