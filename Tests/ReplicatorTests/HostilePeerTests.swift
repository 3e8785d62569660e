import CRDT
import Exchange
import Foundation
import Identity
import ServiceKit
import Sync
import Testing
import WebSocket

@testable import Replicator

@Suite("A peer that breaks the rules", .timeLimit(.minutes(2)))
struct HostilePeerTests {
    @Test("garbage, unknown and oversized frames end that session with a code, and others go on")
    func badFrames() async throws {
        try await TestBench.run { bench in
            let honest = try bench.peer("honest")
            honest.sync.start()
            let token = bench.token()
            #expect(
                try await bench.converse(token: token, [[1, 2, 3]], greets: false).closeCode == "SYNC-0101")
            #expect(try await bench.converse(token: token, [[0xA1, 0, 0x18, 99]]).closeCode == "SYNC-0102")
            let large = [UInt8](repeating: 0, count: Sync.Limits.frameBytes + 1)
            #expect(try await bench.converse(token: token, [large]).closeCode == "SYNC-0103")
            let head = try await bench.log.head(of: TestBench.database)
            let progress = Frame.progress(head).encoded()
            #expect(try await bench.converse(token: token, [progress]).closeCode == "SYNC-0104")
            let commit = try honest.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            #expect(try await honest.isAcknowledged(commit))
            await honest.sync.stop()
        }
    }

    @Test("frames out of turn, in a reconcile that a greeting can bring about, cost that session only")
    func reconcile() async throws {
        try await TestBench.run { bench in
            let honest = try bench.peer("honest")
            honest.sync.start()
            // A place that the log does not have: as if it had been put back.
            let beyond = LogPosition(
                logID: try await bench.log.head(of: TestBench.database).logID, offset: 9_999, hash: 1)
            let key = DocumentKey(collection: "cars", id: try DocumentID(.int(1)))
            let frames: [Frame] = [
                .credit(1), .want([key]), .states([(key: key, state: EncodedState([1]))]),
                .held(id: 1, [], isLast: true), .holdings([], isLast: true),
                .holdings([DocumentVersion(key: key, vector: [1, 2])], isLast: true),
            ]
            for frame in frames {
                // What no peer sends closes the session, if nothing before it has.
                let end = Frame.progress(beyond).encoded()
                let heard = try await bench.converse(
                    token: bench.token(), [frame.encoded(), end], head: beyond)
                #expect(heard.closeCode.map(["SYNC-0101", "SYNC-0104"].contains) ?? false)
            }
            let commit = try honest.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            #expect(try await honest.isAcknowledged(commit))
            await honest.sync.stop()
        }
    }

    @Test("a wrong, expired or foreign token is refused before the upgrade")
    func tokens() async throws {
        try await TestBench.run { bench in
            func status(_ token: String) async throws -> Int? {
                do {
                    _ = try await bench.converse(token: token, [])
                    return nil
                } catch let error as WebSocketError {
                    return error.status
                }
            }
            #expect(try await status("nonsense") == 401)
            #expect(try await status(bench.token(validForSeconds: -120)) == 401)
            let foreign = try DatabaseSigningKey(databaseID: TestBench.database, number: 1)
            let strangers = TestBench(
                folder: bench.folder, log: bench.log, key: foreign, address: bench.address)
            #expect(try await status(strangers.token()) == 401)
        }
    }

    @Test("a database that the log does not have is not found, though the token is good")
    func unknownDatabase() async throws {
        try await TestBench.run { bench in
            let key = try DatabaseSigningKey(databaseID: "elsewhere", number: 1)
            let source = InMemoryKeySource()
            source.insert(key.publicKey)
            let part = ReplicatorPart(
                log: bench.log, authenticator: Authenticator(source: source),
                materializations: TestBench.materializations(of: bench.log, bench.folder, "other"),
                logger: TestBench.quiet)
            let host = ServiceHost(parts: [part], listen: .anyLoopbackPort, logger: TestBench.quiet)
            let status = try await host.run { address -> Int? in
                let other = TestBench(folder: bench.folder, log: bench.log, key: key, address: address)
                do {
                    _ = try await other.converse(
                        token: other.token(database: "elsewhere", grant: .everything), [])
                    return nil
                } catch let error as WebSocketError {
                    return error.status
                }
            }
            #expect(status == 404)
        }
    }

    @Test("a session ends when its token expires")
    func expiry() async throws {
        let moved = MovedClock()
        var sessions = SessionOptions()
        sessions.clock = moved.clock
        try await TestBench.run(sessions: sessions) { bench in
            let frames = try await bench.converse(token: bench.token(validForSeconds: 600), []) { frames in
                // The session has begun; the token expires while it runs.
                if frames.count == 1 { moved.advance(bySeconds: 601) }
                return false
            }
            #expect(frames.closeCode == "SYNC-0502")
        }
    }

    @Test("an actor that one key registered is closed to every other")
    func foreignActor() async throws {
        try await TestBench.run { bench in
            let owner = bench.token(grant: .everything, peerKey: "owner")
            let thief = bench.token(grant: .everything, peerKey: "thief")
            let first = try await bench.converse(
                token: owner, [Written.upload(try Written.operation())], until: \.isAcknowledged)
            #expect(first.isAcknowledged)
            let second = try await bench.converse(
                token: thief,
                [
                    Written.upload(
                        try Written.operation(
                            sequence: 2, time: 2 << 16, base: [.init(actor: ActorID(7), time: 1 << 16)]))
                ])
            #expect(second.refusals == ["SYNC-0404"])
        }
    }

    @Test("a change that leaves out its author's own last one is refused")
    func ownHistory() async throws {
        try await TestBench.run { bench in
            let frames = try await bench.converse(
                token: bench.token(grant: .everything),
                [
                    Written.upload(try Written.operation()),
                    Written.upload(try Written.operation(sequence: 2, time: 2 << 16)),
                ])
            #expect(frames.refusals == ["SYNC-0405"])
        }
    }

    @Test("a change that rests on a refused one of the same upload stops nobody else")
    func restingOnRefused() async throws {
        try await TestBench.run { bench in
            let lost = try Written.operation(actor: 1, sequence: 9)
            let resting = try Written.operation(
                actor: 2, sequence: 1, time: 2 << 16, base: [.init(actor: ActorID(1), time: 1 << 16)])
            let frames = try await bench.converse(
                token: bench.token(grant: .everything), [Written.upload(lost, resting)])
            #expect(frames.refusals == ["SYNC-0403"])
            let peer = try bench.peer("honest")
            let commit = try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1})")
            peer.sync.start()
            #expect(try await peer.isAcknowledged(commit))
            await peer.sync.stop()
        }
    }

    @Test("what a subscription no longer matches is corrected when it is made anew without a cursor")
    func staleDocuments() async throws {
        try await TestBench.run { bench in
            let writer = try bench.peer("writer")
            let reader = try bench.peer("reader")
            let red = "SELECT * FROM cars WHERE color = 'red'"
            let key = try reader.sync.subscribe(statement: red, arguments: ObjectValue())
            try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'color': 'red'})")
            writer.sync.start()
            reader.sync.start()
            #expect(try await eventually { try reader.rows("SELECT * FROM cars").count == 1 })
            await reader.sync.stop()
            reader.sync.unsubscribe(key)
            try reader.replica.forgetCursor(of: key)
            let commit = try writer.execute("UPDATE cars SET color = 'blue' WHERE _id = 'a'")
            #expect(try await writer.isAcknowledged(commit))
            try reader.sync.subscribe(statement: red, arguments: ObjectValue())
            reader.sync.start()
            #expect(try await eventually { try reader.rows(red).isEmpty })
            await writer.sync.stop()
            await reader.sync.stop()
        }
    }

    @Test("operations that may not enter the log are refused by code, and a record takes the place of each")
    func refusals() async throws {
        try await TestBench.run { bench in
            func answers(_ bytes: [UInt8], grant: Grant = .everything) async throws -> [String] {
                let frames = try await bench.converse(
                    token: bench.token(grant: grant), [Written.upload(bytes)])
                return frames.refusals
            }
            let stranger = VersionVector.Entry(actor: ActorID(99), time: 5)
            let future = (UInt64(Date().timeIntervalSince1970) + 3_600) * 1_000 << 16
            let garbage = try await bench.converse(token: bench.token(), [Written.upload([1, 2, 3])])
            #expect(garbage.closeCode == "SYNC-0402")
            #expect(try await answers(Written.operation(sequence: 5)) == ["SYNC-0403"])
            #expect(try await bench.log.head(of: TestBench.database).offset == 0)
            let header = Array(try Written.operation(actor: 4).prefix(19))
            #expect(try await answers(header + [9, 9, 9]) == ["SYNC-0402"])
            #expect(try await answers(Written.operation(actor: 1, base: [stranger])) == ["SYNC-0405"])
            #expect(try await answers(Written.operation(actor: 2, time: future)) == ["SYNC-0406"])
            #expect(try await answers(Written.operation(actor: 3), grant: .readOnly) == ["SYNC-0401"])
            let entries = try await bench.log.read(TestBench.database, after: 0)
            #expect(entries.map(\.actor.rawValue) == [4, 1, 2, 3])
            #expect(entries.allSatisfy { $0.timestamp == 0 })
            #expect(try entries.allSatisfy { try Operation(decoding: $0.bytes).changes.isEmpty })
            // The place is taken: what was refused cannot enter by another way.
            #expect(try await answers(Written.operation(actor: 3)) == ["SYNC-0404"])
            let peer = try bench.peer("peer")
            peer.sync.start()
            #expect(try await peer.isAcknowledged(peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")))
            await peer.sync.stop()
        }
    }
}
