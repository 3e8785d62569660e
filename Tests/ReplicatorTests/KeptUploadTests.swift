import CRDT
import Foundation
import Identity
import Testing

@testable import Replicator
@testable import Sync

@Suite("An upload that a broken connection brought in part", .timeLimit(.minutes(2)))
struct KeptUploadTests {
    @Test("goes on in the next session of the same peer, and of no other")
    func goesOn() async throws {
        try await TestBench.run { bench in
            let operations = try (1...200).map { try Written.operation(actor: UInt64($0)) }
            let message = Frame.upload(operations).encoded()
            func chunk(_ range: Range<Int>) -> [UInt8] {
                Frame.chunk(
                    isLast: range.upperBound == message.count, Array(message[range]), of: hash64(message),
                    at: UInt64(range.lowerBound)
                ).encoded()
            }
            func greeting(_ key: String, _ messages: [[UInt8]] = []) async throws -> Frame.Kept? {
                let frames = try await bench.converse(
                    token: bench.token(grant: .everything, peerKey: key), messages, version: 3,
                    until: { !$0.isEmpty })
                guard case .hello(let hello)? = frames.first else { return nil }
                return hello.kept
            }
            #expect(try await greeting("own", [chunk(0..<5_000)]) == nil)
            let kept = Frame.Kept(hash: hash64(message), count: 5_000)
            #expect(try await eventually { try await greeting("own") == kept })
            #expect(try await greeting("other") == nil)
            let frames = try await bench.converse(
                token: bench.token(grant: .everything, peerKey: "own"), [chunk(5_000..<message.count)],
                version: 3, until: { $0.isAcknowledged || $0.closeCode != nil })
            #expect(frames.isAcknowledged)
            #expect(try await eventually { try await greeting("own") == nil })
        }
    }

    private func withHub(_ body: @escaping @Sendable (DatabaseHub) async throws -> Void) async throws {
        try await TestBench.run { bench in
            let hub = try await DatabaseHub.open(
                TestBench.database, log: bench.log, folder: bench.folder.appendingPathComponent("kept").path,
                logger: TestBench.quiet)
            try await body(hub)
            await hub.close()
        }
    }

    /// What has come of a message, so many bytes.
    private func partial(_ bytes: Int) -> PartialMessage {
        var message = PartialMessage(hash: UInt64(bytes))
        message.append([UInt8](repeating: 0, count: bytes))
        return message
    }

    @Test("what is kept is bounded: the oldest goes first, and what is complete at once")
    func bounds() async throws {
        try await withHub { hub in
            let half = Replicator.Limits.partialBytes / 2
            await hub.keep(partial(half), of: "a", by: 1)
            await hub.keep(partial(half), of: "b", by: 2)
            await hub.keep(partial(half), of: nil, by: 3)
            #expect(await hub.partial(of: "a")?.count == half)
            await hub.keep(partial(1), of: "c", by: 4)
            #expect(await hub.partial(of: "a") == nil)
            #expect(await hub.partial(of: "b")?.count == half)
            await hub.keep(nil, of: "b", by: 5)
            #expect(await hub.partial(of: "b") == nil)
            #expect(await hub.partial(of: nil) == nil)
        }
    }

    @Test("a session whose link froze long ago does not take back what a newer one has kept")
    func frozen() async throws {
        try await withHub { hub in
            await hub.keep(partial(65_536), of: "a", by: 1)
            await hub.keep(partial(458_752), of: "a", by: 2)
            await hub.keep(partial(98_304), of: "a", by: 1)
            #expect(await hub.partial(of: "a")?.count == 458_752)
            await hub.keep(nil, of: "a", by: 1)
            #expect(await hub.partial(of: "a")?.count == 458_752)
            await hub.keep(partial(500_000), of: "a", by: 2)
            #expect(await hub.partial(of: "a")?.count == 500_000)
            // A running one that has kept nothing yet counts too.
            let identity = Identity(
                userID: "u", databaseID: TestBench.database, peerKey: "b", grant: .everything,
                expiresAtSeconds: .max)
            await hub.register(9, SessionRights(identity), load: { .init(unsentBytes: 0, catchingUp: 0) }) {
                _ in
            }
            await hub.keep(partial(1), of: "b", by: 8)
            #expect(await hub.partial(of: "b") == nil)
        }
    }
}
