import CRDT
import DQL
import Foundation
import Identity
import ServiceKit
import Testing

@testable import Replicator

@Suite("A replicator that is started again", .timeLimit(.minutes(2)))
struct FoldedBeforeTests {
    /// Another replicator on the same log, in a folder of its own that outlives it.
    private func serving(
        _ bench: TestBench, _ body: @escaping @Sendable (TestBench, ReplicatorPart) async throws -> Void
    ) async throws {
        let source = InMemoryKeySource()
        source.insert(bench.key.publicKey)
        let part = ReplicatorPart(
            log: bench.log, authenticator: Authenticator(source: source),
            materializations: TestBench.materializations(of: bench.log, bench.folder, "second"),
            logger: TestBench.quiet)
        let host = ServiceHost(parts: [part], listen: .anyLoopbackPort, logger: TestBench.quiet)
        try await host.run { address in
            let second = TestBench(folder: bench.folder, log: bench.log, key: bench.key, address: address)
            try await body(second, part)
        }
    }

    @Test("folds on what it has folded before, though nobody comes; what it never had it leaves alone")
    func foldsOn() async throws {
        try await TestBench.run { bench in
            try await bench.log.createDatabase("never-visited")
            try await serving(bench) { _, part in
                _ = try await part.hub(of: TestBench.database)
            }
            let writer = try bench.peer("writer")
            writer.sync.start()
            let commit = try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            #expect(try await writer.isAcknowledged(commit))
            let head = try await bench.log.head(of: TestBench.database)
            #expect(head.offset > 0)
            try await serving(bench) { _, part in
                var hub: DatabaseHub?
                while await hub?.materializer.position != head {
                    try await Task.sleep(for: .milliseconds(10))
                    hub = part.openHub(of: TestBench.database)
                }
                #expect(part.openHub(of: "never-visited") == nil)
            }
            await writer.sync.stop()
        }
    }

    @Test("of what was folded before the latest come first")
    func order() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("folded-\(UUID())")
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, seconds) in [("a", 10.0), ("b", 30.0), ("gone", 40.0), ("c", 20.0)] {
            let place = folder.appendingPathComponent(name)
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            let file = place.appendingPathComponent("replica.sqlite").path
            #expect(FileManager.default.createFile(atPath: file, contents: nil))
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: seconds)], ofItemAtPath: file)
        }
        let all: [DatabaseID] = ["a", "b", "c", "elsewhere"]
        #expect(FoldedBefore.databases(in: folder.path, of: all) == ["b", "c", "a"])
    }
}
