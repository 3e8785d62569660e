import CRDT
import Foundation
import Identity
import Synchronization
import Testing
import Transport

@testable import Sync

@Suite("A session under a token that names a peer key", .timeLimit(.minutes(2)))
struct PeerProofTests {
    private static let cars = "SELECT * FROM cars"

    /// How a session began: the code that it was closed with; nil for a greeting.
    private func greeting(
        _ bench: TestBench, _ token: String, proof: @escaping TestBench.Proof
    ) async throws -> String? {
        try await bench.converse(token: token, [], until: { !$0.isEmpty }, proof: proof).closeCode
    }

    @Test("opens for the key's holder, and for nobody that holds the token alone")
    func holder() async throws {
        try await TestBench.run { bench in
            let token = bench.token(grant: .everything, peerKey: "own")
            let other = bench.token(grant: .everything, peerKey: "own", tokenID: "other")
            let honest = try await greeting(bench, token, proof: TestBench.proven)
            #expect(honest == nil)
            let wrong: [(String, TestBench.Proof)] = [
                ("none", { _, _ in nil }),
                ("empty", { _, _ in [] }),
                ("zeros", { _, _ in [UInt8](repeating: 0, count: 64) }),
                (
                    "another key's",
                    { challenge, token in
                        challenge.answer(
                            with: TestBench.peerKey("thief"), databaseID: TestBench.database, token: token)
                    }
                ),
                ("for another token", { challenge, _ in TestBench.proven(challenge, other) }),
                (
                    "for another database",
                    { challenge, token in
                        challenge.answer(with: TestBench.peerKey("own"), databaseID: "boats", token: token)
                    }
                ),
                ("for a challenge of one's own", { _, token in TestBench.proven(PeerChallenge(), token) }),
            ]
            for (name, proof) in wrong {
                let code = try await greeting(bench, token, proof: proof)
                #expect(code == "SYNC-0505", "\(name)")
            }
        }
    }

    @Test("an answer that was heard in another session proves nothing in this one")
    func replay() async throws {
        try await TestBench.run { bench in
            let token = bench.token(grant: .everything, peerKey: "own")
            let heard = Mutex<[(PeerChallenge, [UInt8])]>([])
            let honest = try await greeting(bench, token) { challenge, token in
                let answer = TestBench.proven(challenge, token)
                heard.withLock { $0.append((challenge, answer ?? [])) }
                return answer
            }
            #expect(honest == nil)
            let replayed = try await greeting(bench, token) { challenge, _ in
                heard.withLock { heard in
                    #expect(heard[0].0 != challenge, "nobody is asked the same twice")
                    return heard[0].1
                }
            }
            #expect(replayed == "SYNC-0505")
        }
    }

    @Test("nothing is told or taken before the key is proven")
    func nothingBefore() async throws {
        try await TestBench.run { bench in
            let token = bench.token(grant: .everything, peerKey: "own")
            let frames = try await bench.converse(
                token: token, [Written.upload(try Written.operation())], until: { $0.closeCode != nil },
                proof: { _, _ in nil })
            #expect(frames.count == 1 && frames.closeCode == "SYNC-0505")
            #expect(try await bench.log.head(of: TestBench.database).offset == 0)
            let early = try await bench.converse(
                token: token, [Written.upload(try Written.operation())], greets: false,
                until: { $0.closeCode != nil })
            #expect(early.closeCode == "SYNC-0104")
            #expect(try await bench.log.head(of: TestBench.database).offset == 0)
        }
    }

    @Test("a peer proves its key by itself; one that cannot is told, and asks for another token")
    func peers() async throws {
        try await TestBench.run { bench in
            let token = bench.token(grant: .everything, peerKey: "own")
            let honest = try bench.peer("honest", token: token, proof: TestBench.provenText)
            let commit = try honest.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            honest.sync.start()
            #expect(try await honest.isAcknowledged(commit))
            await honest.sync.stop()

            let told = Mutex<[String]>([])
            let thief = try bench.peer(
                "thief", token: token,
                notify: { notice in
                    if case .unauthorized(let token, let reason) = notice {
                        told.withLock { $0.append("\(token.count) \(reason)") }
                    }
                })
            _ = try thief.sync.subscribe(statement: Self.cars, arguments: ObjectValue())
            thief.sync.start()
            #expect(try await eventually { told.withLock { !$0.isEmpty } })
            #expect(told.withLock { $0[0] }.hasPrefix("\(token.count) SYNC-0505"))
            #expect(try thief.rows(Self.cars).isEmpty)
            await thief.sync.stop()
        }
    }

    @Test("without a key an actor belongs to the user that registered it")
    func users() async throws {
        try await TestBench.run { bench in
            let ada = bench.token(grant: .everything, userID: "ada")
            let eve = bench.token(grant: .everything, userID: "eve")
            @Sendable func upload(_ token: String, _ sequence: SequenceNumber) async throws -> [Frame] {
                let base = (1..<sequence).map { _ in VersionVector.Entry(actor: ActorID(7), time: 1 << 16) }
                return try await bench.converse(
                    token: token,
                    [
                        Written.upload(
                            try Written.operation(
                                sequence: sequence, time: sequence.rawValue << 16, base: base))
                    ],
                    until: { $0.isAcknowledged || !$0.refusals.isEmpty })
            }
            let first = try await upload(ada, 1)
            let stolen = try await upload(eve, 2)
            let second = try await upload(ada, 2)
            #expect(first.isAcknowledged && second.isAcknowledged)
            #expect(stolen.refusals == ["SYNC-0404"])
        }
    }
}
