import Foundation
import TestSupport
import Testing

@testable import CRDT

/// The page Encoding.md against the code: a decoder in another language, written from the page alone, must
/// give the same verdict on every string of bytes and read the same out of those that decode.
@Suite("The decoder in another language")
struct ConformanceTests {
    private static let script = URL(fileURLWithPath: #filePath)
        .resolvingSymlinksInPath().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Conformance/document_decoder.py")

    @Test("it reads the fixtures as they were written")
    func fixtures() throws {
        let (status, output) = try Self.run([])
        #expect(status == 0, "\(output)")
    }

    @Test("it agrees on random documents, deltas, operations, vectors and ids, whole and damaged")
    func agreement() throws {
        var random = SplitMix64(seed: 2)
        var cases: [String] = []
        for _ in 0..<60 { try random.appendCases(to: &cases) }
        cases += Self.deepCases()
        let (status, output) = try withTemporaryDirectory { directory in
            let file = directory.appendingPathComponent("cases.jsonl")
            try Data(cases.joined(separator: "\n").utf8).write(to: file)
            return try Self.run(["agree", file.path])
        }
        #expect(status == 0, "\(output)")
        #expect(output.hasPrefix("\(cases.count) cases, "), "\(output)")
    }

    /// Every kind at the last level that a document may have, and one below it.
    private static func deepCases() -> [String] {
        let random = SplitMix64(seed: 0)
        let stamp = Stamp(time: 1, actor: ActorID(1))
        let leaf = Leaves(Leaves.Leaf(stamp: stamp, value: 1))
        let token = Leaves(Leaves.Leaf(stamp: stamp, value: ["id": "a", "len": 1, "metadata": [:]]))
        let entry = CounterNode.Entry(
            actor: stamp.actor, point: CounterNode.Point(time: 1, total: 1), baseline: nil)
        let contents: [(inout Slot) -> Void] = [
            { $0.register = leaf }, { $0.counter = CounterNode(restarts: leaf) },
            { $0.counter = CounterNode(entries: [entry]) }, { $0.attachment = token },
            { $0.map = MapNode(presence: [stamp]) },
        ]
        let slots = contents.map { fill in
            var slot = Slot()
            fill(&slot)
            return slot
        }
        let documents = slots.flatMap { slot in
            [126, 127, 128].map { levels in
                let inner = MapNode(fields: [MapNode.Field(key: "a", slot: slot)])
                let root = (0..<levels).reduce(inner) { below, _ in
                    MapNode(fields: [MapNode.Field(key: "a", slot: Slot(map: below))])
                }
                let document = Document(
                    vector: VersionVector([.init(actor: stamp.actor, time: 1)]), root: root)
                return random.line("document", document.encoded().bytes, stamp)
            }
        }
        let edits: [[UInt8]] = [[2, 0x81], [8, 8, 0x81], [4, 2], [32, 8, 0x0B, 3, 2, 0x69, 0x64]]
        let deltas = edits.flatMap { edit in
            [126, 127, 128].map { levels in
                let maps = (0..<levels).flatMap { _ in [4, 1, 1, 0x61, 4] as [UInt8] }
                return random.line("delta", [1, 0, 0] + maps + [4, 1, 1, 0x61] + edit, stamp)
            }
        }
        return documents + deltas
    }

    private static func run(_ arguments: [String]) throws -> (Int32, String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", script.path] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}

extension SplitMix64 {
    /// Bytes of every kind: each once as they are, and a few times damaged, with what Swift makes of them.
    fileprivate mutating func appendCases(to cases: inout [String]) throws {
        let document = document()
        let delta = delta(on: document)
        let operation = operation()
        let valid: [(kind: String, bytes: [UInt8], stamp: Stamp)] = [
            ("document", document.encoded().bytes, delta.stamp),
            ("delta", delta.encoded().bytes, delta.stamp),
            ("operation", operation.encoded(), delta.stamp),
            ("vector", document.vector.encoded(), delta.stamp),
            ("id", DocumentID.numbered(below(100)).bytes, delta.stamp),
        ]
        for (kind, bytes, stamp) in valid {
            _ = try Exemplar.describe(kind, bytes, stamp)
            cases.append(line(kind, bytes, stamp))
            for _ in 0..<12 { cases.append(line(kind, damaged([bytes]), stamp)) }
        }
    }

    fileprivate func line(_ kind: String, _ bytes: [UInt8], _ stamp: Stamp) -> String {
        let decoded = try? Exemplar.describe(kind, bytes, stamp)
        return JSONText.print([
            "kind": .string(kind), "bytes": .string(Hex.encode(bytes)),
            "stamp": .string(Exemplar.describe(stamp)), "decoded": decoded.map { ["is": $0] } ?? .null,
        ])
    }
}
