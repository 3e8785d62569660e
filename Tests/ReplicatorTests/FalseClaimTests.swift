import CRDT
import Exchange
import Foundation
import Identity
import OperationLog
import Sync
import Testing

@testable import Replicator

/// Peers that show vectors which they never had: each claim costs an entry of the log at most, at a pace, and
/// nobody else anything (rule 14).
@Suite("A peer that claims what it never held", .timeLimit(.minutes(2)))
struct FalseClaimTests {
    private static let actor = ActorID(1)

    /// The log has one document, `1`, of one author; `ask` is asked as a session with this grant.
    private func withServer(
        _ grant: Grant = .everything, hasLinks: Bool = false,
        _ body: @escaping @Sendable (ServerStore, SQLiteOperationLog, DatabaseHub) async throws -> Void
    ) async throws {
        try await TestBench.run { bench in
            let hub = try await DatabaseHub.open(
                TestBench.database, log: bench.log, folder: bench.folder.appendingPathComponent("own").path,
                logger: TestBench.quiet)
            let written = try TestBench.insertion(1)
            _ = try await bench.log.append(
                [AppendRequest(written, authorKey: "author")], to: TestBench.database)
            let identity = Identity(
                userID: "u", databaseID: TestBench.database, peerKey: "k", grant: grant,
                expiresAtSeconds: .max)
            let rights = SessionRights(identity)
            if hasLinks { rights.noteLinks() }
            let store = ServerStore(
                hub: hub, log: bench.log, database: TestBench.database, session: 1, rights: rights,
                verify: { _ in nil })
            try await body(store, bench.log, hub)
            await hub.close()
        }
    }

    private func key(_ number: Int) throws -> DocumentKey {
        DocumentKey(collection: "c", id: try DocumentID(.int(Int64(number))))
    }

    /// A document shown under the author's stamps up to a time.
    private func claim(_ number: Int, through time: UInt64 = 1 << 16) throws -> DocumentVersion {
        let vector = VersionVector([.init(actor: Self.actor, time: time)])
        return DocumentVersion(key: try key(number), vector: vector.encoded())
    }

    private func length(_ log: SQLiteOperationLog) async throws -> Offset {
        try await log.head(of: TestBench.database).offset
    }

    @Test("a question about a thousand documents that never were is one entry, and asked again none")
    func manyClaims() async throws {
        try await withServer { store, log, hub in
            let claims = try (2..<1_026).map { try claim($0) }
            for _ in 0..<2 {
                let answer = try await store.perform(.readStates(claims.map(\.key), held: claims))
                guard case .states(let states, _, let gone)? = answer else { throw NoAnswer() }
                #expect(states.count == claims.count && gone.isEmpty)
                #expect(try await length(log) == 2)
            }
            let own = try hub.materializer.replica.read { try $0.state(of: key(1)) }
            #expect(try Value.object(Document(decoding: #require(own)).value) == ["n": 1])
        }
    }

    @Test("a claim beyond what the log has seen, or of somebody whom it never met, is none")
    func beyondFrontier() async throws {
        try await withServer { store, log, _ in
            var claims = [try claim(2, through: 2 << 16), try claim(1, through: .max >> 1)]
            let unknown = VersionVector([.init(actor: ActorID(99), time: 5)])
            claims.append(DocumentVersion(key: try key(3), vector: unknown.encoded()))
            _ = try await store.perform(.readStates(claims.map(\.key), held: claims))
            #expect(try await length(log) == 1)
        }
    }

    @Test("a reader without the right to write is told to forget what it claims, and writes nothing")
    func reader() async throws {
        let reading = Grant(
            read: .everything, write: AccessRules(queriesByCollection: [:]), queryLanguage: 1)
        try await withServer(reading) { store, log, _ in
            let claims = [try claim(2)]
            let answer = try await store.perform(.readStates(claims.map(\.key), held: claims))
            guard case .states(_, _, let gone)? = answer else { throw NoAnswer() }
            #expect(gone.map(\.key) == claims.map(\.key))
            #expect(try await length(log) == 1)
        }
    }

    @Test("a claim about a document that may not be read is passed over, whoever has links")
    func unreadable() async throws {
        let other = AccessRules(queriesByCollection: ["d": ["true"]])
        for write in [other, .everything] {
            try await withServer(
                Grant(read: other, write: write, queryLanguage: 1), hasLinks: true
            ) { store, log, _ in
                let claims = [try claim(2)]
                _ = try await store.perform(.readStates(claims.map(\.key), held: claims))
                #expect(try await length(log) == 1)
            }
        }
    }

    @Test("a million claims of lost documents take a session a thousand seconds")
    func pace() {
        let pace = DeletionPace()
        let now = ContinuousClock.now
        var pauses: [Duration] = []
        for _ in 0..<1_000 { pauses.append(pace.pause(for: 1_000, at: now)) }
        #expect(pauses[0] == .zero, "what a peer shows that was away is not slowed down")
        #expect(pauses == pauses.sorted())
        #expect(pauses[999] > .seconds(970))
        // Whoever waits pays, and is at the pace again afterwards.
        #expect(pace.pause(for: 1_000, at: now + .seconds(2_000)) == .zero)
    }

    @Test("a session that claims more at once than it may ends with a code, and others go on")
    func tooMany() async throws {
        try await TestBench.run { bench in
            let honest = try bench.peer("honest")
            honest.sync.start()
            let first = try honest.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(try await honest.isAcknowledged(first))
            let stored = try honest.replica.read { try $0.state(of: key(1)) }
            let vector = try Document(decoding: #require(stored)).vector.encoded()
            let claims = try (2..<1_027).map { DocumentVersion(key: try key($0), vector: vector) }
            let tooMany = Frame.want(claims.map(\.key), held: claims).encoded()
            let token = bench.token()
            #expect(try await bench.converse(token: token, [tooMany]).closeCode == "SYNC-0101")
            // As many as it may, and what it may not say of one of them.
            let few = Array(claims.prefix(64))
            let broken = few.dropLast() + [DocumentVersion(key: few[63].key, vector: [1, 2])]
            let malformed = Frame.want(few.map(\.key), held: Array(broken)).encoded()
            #expect(try await bench.converse(token: token, [malformed]).closeCode == "SYNC-0101")
            let answered = try await bench.converse(
                token: token, [Frame.want(few.map(\.key), held: few).encoded()],
                until: { $0.statesCount >= few.count })
            #expect(answered.statesCount == few.count)
            let second = try honest.execute("UPDATE c SET n = 2 WHERE _id = 1")
            #expect(try await honest.isAcknowledged(second))
            #expect(try honest.rows("SELECT * FROM c") == ["{\"_id\":1,\"n\":2}"])
            await honest.sync.stop()
        }
    }

    private struct NoAnswer: Error {}
}

extension [Frame] {
    /// How many documents were answered.
    fileprivate var statesCount: Int {
        reduce(0) { if case .states(let states, _, _, _) = $1 { $0 + states.count } else { $0 } }
    }
}
