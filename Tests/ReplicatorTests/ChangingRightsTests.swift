import CRDT
import DQL
import Exchange
import Foundation
import Identity
import ServiceKit
import Sync
import Synchronization
import Testing
import Transport

@testable import Replicator

@Suite("Rights that change while a session runs", .timeLimit(.minutes(3)))
struct ChangingRightsTests {
    /// What a peer was told, in order.
    private final class Notices: Sendable {
        private let all = Mutex<[PeerSync.Notice]>([])
        func add(_ notice: PeerSync.Notice) { all.withLock { $0.append(notice) } }

        /// How often a session was opened.
        var openings: Int { all.withLock { $0.count { $0 == .status(.connected) } } }
        /// The tokens that were not taken.
        var refusedTokens: [String] {
            all.withLock { $0.compactMap { if case .unauthorized(let token, _) = $0 { token } else { nil } } }
        }
        /// The codes of writes that were refused.
        var refusedWrites: [String] {
            all.withLock {
                $0.compactMap {
                    if case .report(.writeRefused(let refusal)) = $0 { refusal.error.code } else { nil }
                }
            }
        }
    }

    private func grant(reads: [String] = [], writes: [String] = []) -> Grant {
        func rules(_ names: [String]) -> AccessRules {
            AccessRules(
                queriesByCollection: Dictionary(
                    uniqueKeysWithValues: names.map { (CollectionName($0), ["true"]) }))
        }
        return Grant(read: rules(reads), write: rules(writes))
    }

    private static let cars = "SELECT * FROM cars"

    @Test("a newer token is judged before what comes behind it, and the session goes on")
    func renewedWrites() async throws {
        try await TestBench.run { bench in
            let renewal = Frame.renewal(token: bench.token(grant: .everything)).encoded()
            let frames = try await bench.converse(
                token: bench.token(grant: .readOnly),
                [
                    Written.upload(try Written.operation(actor: 1)), renewal,
                    Written.upload(try Written.operation(actor: 2)),
                ], version: 3, answered: true, until: { $0.isAcknowledged || $0.closeCode != nil })
            #expect(frames.refusals == ["SYNC-0401"])
            #expect(frames.isAcknowledged)
            // And the other way round.
            let fewer = Frame.renewal(token: bench.token(grant: .readOnly)).encoded()
            let refused = try await bench.converse(
                token: bench.token(grant: .everything),
                [
                    Written.upload(try Written.operation(actor: 3)), fewer,
                    Written.upload(try Written.operation(actor: 4)),
                ], version: 3, answered: true)
            #expect(refused.isAcknowledged)
            #expect(refused.refusals == ["SYNC-0401"])
        }
    }

    @Test("a newer token that is another peer's, another database's, expired or garbage ends the session")
    func wrongTokens() async throws {
        try await TestBench.run { bench in
            let own = bench.token(grant: .everything, peerKey: "own")
            let foreign = try DatabaseSigningKey(databaseID: "elsewhere", number: 1)
            let strangers = TestBench(
                folder: bench.folder, log: bench.log, key: foreign, address: bench.address)
            let wrong = [
                bench.token(grant: .everything, peerKey: "other"), bench.token(grant: .everything),
                strangers.token(database: "elsewhere", grant: .everything, peerKey: "own"),
                bench.token(validForSeconds: -120), "nonsense", "", String(repeating: "x", count: 20_000),
            ]
            for token in wrong {
                let frames = try await bench.converse(
                    token: own, [Frame.renewal(token: token).encoded()], version: 3,
                    until: { $0.closeCode != nil })
                #expect(frames.closeCode == "SYNC-0504")
            }
        }
    }

    @Test("what a newer token lets a peer read comes in the session that runs, and what it does not goes")
    func renewedReads() async throws {
        try await TestBench.run { bench in
            let writer = try bench.peer("writer")
            writer.sync.start()
            let commit = try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'}), ({'_id': 'b'})")
            #expect(try await writer.isAcknowledged(commit))

            let notices = Notices()
            let newest = Mutex<String?>(nil)
            let none = grant(reads: ["boats"])
            let reader = try bench.peer(
                "reader", grant: none, newestToken: { newest.withLock { $0 } }, notify: { notices.add($0) })
            try reader.sync.subscribe(statement: Self.cars, arguments: ObjectValue())
            reader.sync.start()
            #expect(try await eventually { notices.openings == 1 })
            func renew(_ grant: Grant) {
                newest.withLock { $0 = bench.token(grant: grant) }
                reader.sync.renewToken()
            }
            renew(.everything)
            #expect(try await eventually { try reader.rows(Self.cars).count == 2 })
            try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'c'})")
            #expect(try await eventually { try reader.rows(Self.cars).count == 3 })
            renew(none)
            #expect(try await eventually { try reader.rows(Self.cars).isEmpty })
            renew(.everything)
            #expect(try await eventually { try reader.rows(Self.cars).count == 3 })
            #expect(notices.openings == 1)
            #expect(notices.refusedTokens.isEmpty)
            await reader.sync.stop()
            await writer.sync.stop()
        }
    }

    @Test("a newer token that came while the connection was made is sent in the session")
    func renewedWhileConnecting() async throws {
        try await TestBench.run { bench in
            // In this order: a token that is older than the session's own is refused.
            let first = bench.token(grant: grant(reads: ["boats"]))
            let newest = bench.token(grant: .everything)
            let reader = try bench.peer("reader", token: first, newestToken: { newest })
            let writer = try bench.peer("writer")
            try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            try reader.sync.subscribe(statement: Self.cars, arguments: ObjectValue())
            writer.sync.start()
            reader.sync.start()
            #expect(try await eventually { try reader.rows(Self.cars).count == 1 })
            await reader.sync.stop()
            await writer.sync.stop()
        }
    }

    @Test("a service's word about a grant holds at once, for reading and writing, and for that identity only")
    func changedByService() async throws {
        try await TestBench.run { bench in
            let part = try #require(bench.part)
            let notices = Notices()
            let other = Notices()
            let peer = try bench.peer("peer", notify: { notices.add($0) })
            let bystander = try bench.peer("bystander", grant: .readOnly, notify: { other.add($0) })
            for each in [peer, bystander] {
                try each.sync.subscribe(statement: Self.cars, arguments: ObjectValue())
                each.sync.start()
            }
            let commit = try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            #expect(try await peer.isAcknowledged(commit))
            #expect(try await eventually { try bystander.rows(Self.cars).count == 1 })

            let boats = grant(reads: ["boats", "cars"], writes: ["boats"])
            await part.changeRights(in: TestBench.database) {
                $0.grant == .everything ? .grant(boats) : .same
            }
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'b'})")
            #expect(try await eventually { notices.refusedWrites == ["SYNC-0401"] })
            await part.changeRights(in: "elsewhere") { _ in .ended("not this database") }
            let blind = grant(reads: ["boats"], writes: ["boats"])
            await part.changeRights(in: TestBench.database) { $0.grant == boats ? .grant(blind) : .same }
            #expect(try await eventually { try peer.rows(Self.cars).isEmpty })
            await part.changeRights(in: TestBench.database) {
                $0.grant == blind ? .grant(.everything) : .same
            }
            #expect(try await eventually { try peer.rows(Self.cars).count == 1 })
            let last = try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'c'})")
            #expect(try await peer.isAcknowledged(last))
            #expect(try await eventually { try bystander.rows(Self.cars).count == 2 })
            #expect(notices.openings == 1 && other.openings == 1)

            await part.changeRights(in: TestBench.database) {
                $0.grant == .everything ? .ended("the key was revoked") : .same
            }
            #expect(try await eventually { notices.refusedTokens.count == 1 })
            #expect(other.openings == 1 && other.refusedTokens.isEmpty)
            await peer.sync.stop()
            await bystander.sync.stop()
        }
    }

    @Test(
        "a newer token puts the end off, an earlier end brings it forward, and who has none ends")
    func expiry() async throws {
        let now = Mutex<Int64>(0)
        let looks = Mutex(0)
        let clock = DeadlineWatch.Clock(
            nowSeconds: {
                looks.withLock { $0 += 1 }
                return now.withLock { $0 }
            }, pause: { try? await Task.sleep(for: .milliseconds(1)) })
        let watch = DeadlineWatch(clock: clock)
        func expiry(_ end: Int64, _ ends: Ends) -> SessionDeadline {
            let expiry = SessionDeadline(watch)
            expiry.begin(end) { ends.add("ended") }
            return expiry
        }
        let (left, renewed, shortened, over) = (Ends(), Ends(), Ends(), Ends())
        _ = expiry(100, left)
        let later = expiry(100, renewed)
        let sooner = expiry(500, shortened)
        let ended = expiry(100, over)
        later.set(300)
        sooner.set(50)
        ended.cancel()
        ended.set(10)
        now.withLock { $0 = 120 }
        #expect(try await eventually { left.all == ["ended"] && shortened.all == ["ended"] })
        let seen = looks.withLock { $0 }
        #expect(try await eventually { looks.withLock { $0 } > seen + 3 })
        #expect(renewed.all.isEmpty && over.all.isEmpty)
        now.withLock { $0 = 300 }
        #expect(try await eventually { renewed.all == ["ended"] })
    }

    private final class Ends: Sendable {
        private let codes = Mutex<[String]>([])
        func add(_ code: String) { codes.withLock { $0.append(code) } }
        var all: [String] { codes.withLock { $0 } }
    }

    @Test("the identity moves only to one of the same peer, and tells what may be read when that has changed")
    func identities() throws {
        func identity(
            _ grant: Grant, key: String? = "k", database: DatabaseID = "d", until end: Int64 = 5,
            issued: Int64 = 0
        ) -> Identity {
            Identity(
                userID: "u", databaseID: database, peerKey: key, grant: grant, expiresAtSeconds: end,
                issuedAtSeconds: issued)
        }
        let told = Mutex<[(end: Int64, mayRead: Bool?)]>([])
        let rights = SessionRights(identity(.readOnly))
        rights.follow { newer, access in
            let mayRead = access?.allows(collection: "c")
            told.withLock { $0.append((newer.expiresAtSeconds, mayRead)) }
        }
        try rights.replace(with: identity(.readOnly, until: 9))
        try rights.replace(with: identity(.nothing, until: 7))
        for wrong in [
            identity(.everything, key: "other"), identity(.everything, key: nil),
            identity(.everything, database: "e"),
        ] {
            #expect(throws: SyncError.self) { try rights.replace(with: wrong) }
        }
        #expect(rights.identity == identity(.nothing, until: 7))
        // Neither a token from before another one, nor one from before a service's word, undoes that.
        try rights.replace(with: identity(.readOnly, until: 8, issued: 20))
        #expect(throws: SyncError.self) { try rights.replace(with: identity(.everything, issued: 19)) }
        rights.change(to: .nothing, atSeconds: 30)
        #expect(throws: SyncError.self) { try rights.replace(with: identity(.everything, issued: 29)) }
        #expect(rights.identity.grant == .nothing)
        try rights.replace(with: identity(.everything, issued: 30))
        #expect(rights.identity.grant == .everything)
        #expect(told.withLock { $0.map(\.end) } == [9, 7, 8, 8, 5])
        #expect(told.withLock { $0.map(\.mayRead) } == [nil, false, true, false, true])
    }
}
