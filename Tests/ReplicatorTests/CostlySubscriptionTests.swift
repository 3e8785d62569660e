import CRDT
import Foundation
import ServiceKit
import Testing

@testable import Sync

/// Subscriptions whose conditions compute for longer than the server gives them.
@Suite("Costly subscriptions", .timeLimit(.minutes(3)))
struct CostlySubscriptionTests {
    private static let statement =
        "SELECT * FROM cars WHERE ANY a IN l SATISFIES ANY b IN l SATISFIES ANY c IN l SATISFIES "
        + "a + b + c < 0 END END END"

    private static func subscribe(_ id: UInt64, _ statement: String) -> [UInt8] {
        Frame.subscribe(
            Frame.Subscribe(id: id, statement: statement, arguments: .object(ObjectValue()), cursor: nil)
        ).encoded()
    }

    private static var options: EvaluationOptions {
        var options = EvaluationOptions()
        options.subscriptionTime = .milliseconds(20)
        return options
    }

    private static func insert(_ peer: TestPeer, _ id: Int) throws -> UInt64 {
        let list = Value.array((0..<300).map { .int($0) })
        return try peer.execute(
            "INSERT INTO cars DOCUMENTS ({'_id': \(id), 'l': :l})", ObjectValue([(key: "l", value: list)]))
    }

    /// The code of a subscription's refusal.
    private static func refusal(_ frames: [Frame], _ id: UInt64) -> String? {
        for case .subscriptionRefused(id, let error, false) in frames { return error.code }
        return nil
    }

    private static func isCaughtUp(_ frames: [Frame], _ id: UInt64) -> Bool {
        frames.contains { frame in
            if case .catchUp(let page) = frame { page.id == id && page.end != nil } else { false }
        }
    }

    @Test("its catch-up is refused with a code, and the session's other subscription is brought up to date")
    func catchUp() async throws {
        try await TestBench.run(evaluation: Self.options) { bench in
            let peer = try bench.peer("writer")
            peer.sync.start()
            #expect(try await peer.isAcknowledged(try Self.insert(peer, 1)))
            let frames = try await bench.converse(
                token: bench.token(),
                [Self.subscribe(1, Self.statement), Self.subscribe(2, "SELECT * FROM cars")],
                until: { Self.refusal($0, 1) != nil && Self.isCaughtUp($0, 2) })
            #expect(Self.refusal(frames, 1) == "SYNC-0303")
            #expect(Self.isCaughtUp(frames, 2) && frames.closeCode == nil)
            await peer.sync.stop()
        }
    }

    @Test("while it is live a change refuses it, and the session's other subscription gets the change")
    func live() async throws {
        try await TestBench.run(evaluation: Self.options) { bench in
            let peer = try bench.peer("writer")
            peer.sync.start()
            let frames = try await bench.converse(
                token: bench.token(),
                [Self.subscribe(1, Self.statement), Self.subscribe(2, "SELECT * FROM cars")],
                until: { frames in
                    let isLive = Self.isCaughtUp(frames, 1) && Self.isCaughtUp(frames, 2)
                    let hasChange = frames.contains { if case .operations = $0 { true } else { false } }
                    if isLive, !hasChange { _ = try? Self.insert(peer, Int.random(in: 0..<1_000_000)) }
                    return Self.refusal(frames, 1) != nil && hasChange
                })
            #expect(Self.refusal(frames, 1) == "SYNC-0303")
            await peer.sync.stop()
        }
    }
}
