import CRDT
import Foundation
import Identity
import Replicator
import Testing

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

    @Test("what is kept is bounded: the oldest goes first, and what is complete at once")
    func bounds() async throws {
        try await TestBench.run { bench in
            let hub = try await DatabaseHub.open(
                TestBench.database, log: bench.log, folder: bench.folder.appendingPathComponent("kept").path,
                logger: TestBench.quiet)
            func partial(_ bytes: Int) -> PartialMessage {
                var message = PartialMessage(hash: UInt64(bytes))
                message.append([UInt8](repeating: 0, count: bytes))
                return message
            }
            let half = Replicator.Limits.partialBytes / 2
            await hub.keep(partial(half), of: "a")
            await hub.keep(partial(half), of: "b")
            await hub.keep(partial(half), of: nil)
            #expect(await hub.partial(of: "a")?.count == half)
            await hub.keep(partial(1), of: "c")
            #expect(await hub.partial(of: "a") == nil)
            #expect(await hub.partial(of: "b")?.count == half)
            await hub.keep(nil, of: "b")
            #expect(await hub.partial(of: "b") == nil)
            #expect(await hub.partial(of: nil) == nil)
            await hub.close()
        }
    }
}
