import Foundation
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Compressed files")
struct GzipTests {
    /// The content of a file as `gzip` unpacks it: a reader that is not ours.
    static func unpacked(_ file: URL) throws -> Data {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["gzip", "--decompress", "--stdout"]
        let output = Pipe()
        process.standardInput = try FileHandle(forReadingFrom: file)
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CocoaError(.fileReadCorruptFile) }
        return data
    }

    private func packed(_ parts: [[UInt8]]) -> [UInt8] {
        var gzip = Gzip()
        var file: [UInt8] = []
        for part in parts {
            gzip.append(part)
            file += gzip.take()
        }
        return file + gzip.finish()
    }

    private func check(_ parts: [[UInt8]], _ comment: Comment) throws {
        try withTemporaryDirectory { directory in
            let file = directory.appendingPathComponent("file.gz")
            try Data(packed(parts)).write(to: file)
            #expect(try Self.unpacked(file) == Data(parts.joined()), comment)
        }
    }

    @Test("nothing, one byte, every byte, and runs of every length and distance are read back")
    func shapes() throws {
        try check([], "nothing")
        try check([[7]], "one byte")
        try check([Array(0...255)], "every byte")
        try check([[UInt8](repeating: 65, count: 100_000)], "one long run")
        var runs: [UInt8] = []
        let start: [UInt8] = Array("a beginning that comes again: ".utf8)
        for length in 1...300 { runs += start.prefix(4) + (0..<length).map { UInt8($0 % 251) } }
        try check([runs], "every length")
        let random = (0..<33_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) }
        try check([start + random + start + random.prefix(40_000) + start], "far distances")
    }

    @Test(
        "random parts are read back, whatever repeats in them", arguments: Depth.seeds(fast: 25, deep: 1_000))
    func random(seed: UInt64) throws {
        var dice = SplitMix64(seed: seed)
        let words = (0..<40).map { _ in
            (0..<Int.random(in: 1...30, using: &dice)).map { _ in
                UInt8.random(in: .min ... .max, using: &dice)
            }
        }
        let parts = (0..<Int.random(in: 0...6, using: &dice)).map { _ in
            (0..<Int.random(in: 0...2_000, using: &dice)).flatMap { _ in
                words.randomElement(using: &dice) ?? []
            }
        }
        try check(parts, "seed \(seed)")
    }

    @Test("a log becomes a quarter of its size")
    func ratio() {
        let line = #"{"time":"2026-01-01T00:00:00.000Z","level":"info","message":"a statement was slow","#
        let log = (0..<2_000).flatMap { Array("\(line)\"milliseconds\":\"\($0)\"}\n".utf8) }
        #expect(packed([log]).count * 4 < log.count)
    }
}
