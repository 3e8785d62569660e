import CRDT
import Foundation
import Identity
import Machine
import OperationLog
import Replicator
import ServiceKit
import Synchronization
import TestSupport
import Testing
import WebSocket

@testable import Sync

@Suite("What rights do to a session", .timeLimit(.minutes(2)))
struct PermissionTests {
    /// One identity: what it may, what it then reads of `cars` and `boats`, and which of its writes stand.
    struct Row: Sendable, CustomStringConvertible {
        let description: String
        let grant: Grant
        var cars: [String] = []
        var boats: [String] = []
        var refused: [String] = []
    }

    private static func rules(_ query: String) -> AccessRules {
        AccessRules(queriesByCollection: ["cars": [query]])
    }

    /// The rows of the authorization matrix for sessions: reading whole collections and parts of one, and
    /// writing `own` and `other` of `cars` and `b` of `boats`.
    static let rows = [
        Row(description: "everything", grant: .everything, cars: ["other", "own"], boats: ["b"]),
        Row(
            description: "read only", grant: .readOnly, cars: ["other", "own"], boats: ["b"],
            refused: ["b", "other", "own"]),
        Row(
            description: "one collection", grant: Grant(read: rules("true"), write: rules("true")),
            cars: ["other", "own"], refused: ["b"]),
        Row(
            description: "one id, in the legacy language",
            grant: Grant(read: rules("_id == 'own'"), write: rules("_id == 'own'")), cars: ["own"],
            refused: ["b", "other"]),
        Row(
            description: "one id, in DQL, and writing everything",
            grant: Grant(read: rules("_id = 'own'"), write: .everything, queryLanguage: 1), cars: ["own"]),
        Row(
            description: "reading everything, and writing by a part of the id",
            grant: Grant(read: .everything, write: rules("_id LIKE 'ow%'"), queryLanguage: 1),
            cars: ["other", "own"], boats: ["b"], refused: ["b", "other"]),
    ]

    @Test("each identity receives what it may read and nothing else", arguments: rows)
    func reading(row: Row) async throws {
        try await TestBench.run { bench in
            try await seed(bench)
            let settled = Mutex<[[UInt8]: Bool]>([:])
            let peer = try bench.peer(
                "peer", grant: row.grant,
                notify: { notice in
                    switch notice {
                    case .report(.subscriptionIsLive(let key)): settled.withLock { $0[key] = true }
                    case .report(.subscriptionRefused(let key, _)): settled.withLock { $0[key] = false }
                    default: break
                    }
                })
            for collection in ["boats", "cars"] {
                try peer.sync.subscribe(statement: "SELECT * FROM \(collection)", arguments: ObjectValue())
            }
            peer.sync.start()
            #expect(try await eventually(within: .seconds(60)) { settled.withLock { $0.count } == 2 })
            #expect(settled.withLock { $0.values.filter { $0 }.count } == (row.boats.isEmpty ? 1 : 2))
            #expect(try peer.rows("SELECT _id FROM cars").sorted() == row.cars.map { #"{"_id":"\#($0)"}"# })
            #expect(try peer.rows("SELECT _id FROM boats") == row.boats.map { #"{"_id":"\#($0)"}"# })
            await peer.sync.stop()
        }
    }

    @Test("a write that an identity may not make is refused and told, and the others stand", arguments: rows)
    func writing(row: Row) async throws {
        try await TestBench.run { bench in
            let writer = try bench.peer("writer", grant: row.grant)
            let documents = [("cars", "other"), ("boats", "b"), ("cars", "own")]
            for (collection, id) in documents {
                try writer.execute("INSERT INTO \(collection) DOCUMENTS ({'_id': '\(id)'})")
            }
            writer.sync.start()
            #expect(
                try await eventually(within: .seconds(60)) {
                    let refused = try writer.replica.refusedWrites()
                    return refused.flatMap { $0.documents.map { $0.id.description } }.sorted() == row.refused
                })
            #expect(try writer.replica.refusedWrites().allSatisfy { $0.code == "SYNC-0401" })
            let reader = try bench.peer("reader")
            for collection in ["boats", "cars"] {
                try reader.sync.subscribe(statement: "SELECT * FROM \(collection)", arguments: ObjectValue())
            }
            reader.sync.start()
            let standing = documents.map(\.1).filter { !row.refused.contains($0) }.sorted()
            #expect(
                try await eventually(within: .seconds(60)) {
                    let rows = try ["boats", "cars"].flatMap { try reader.rows("SELECT _id FROM \($0)") }
                    return rows.sorted() == standing.map { #"{"_id":"\#($0)"}"# }.sorted()
                })
            await reader.sync.stop()
            await writer.sync.stop()
        }
    }

    /// What every message of a session needs to be let: the rows above, or nothing but the session.
    private static let messages: [String: String] = [
        "hello": "a token that counts, at the upgrade, and the proof of the peer key that it names",
        "renewal": "a newer token of the same peer key, or without one of the same user",
        "subscribe": "reading: some of the collection",
        "unsubscribe": "nothing", "subscriptionRefused": "sent by the server",
        "catchUp": "reading: each document", "operations": "reading: each document", "progress": "nothing",
        "upload": "writing: each document", "acknowledged": "sent by the server",
        "want": "reading: each document", "states": "writing: each document", "credit": "nothing",
        "chunk": "as the message it is part of", "refused": "sent by the server", "close": "nothing",
        "holdings": "writing: each document", "reconciled": "nothing", "list": "sent by the server",
        "held": "reading: each document", "granted": "sent by the server",
        "deferred": "sent by the server", "taken": "between small peers only",
        "certificate": "between small peers only",
        "presence": "nothing: what a record says counts as its peer's word, signed by that peer",
    ]

    @Test("every message has a row")
    func complete() {
        #expect(FrameType.allCases.map { "\($0)" }.filter { Self.messages[$0] == nil } == [])
    }

    @Test("a session opens for each kind of identity as its cell says, for nobody else")
    func identities() async throws {
        let elsewhere = try DatabaseSigningKey(databaseID: "elsewhere", number: 1)
        try await SystemBench.run(besides: elsewhere.publicKey) { bench, system in
            let now = SystemClock.seconds()
            _ = try await bench.log.createDatabase("elsewhere")
            let key = APIKey()
            try await system.write { writer in
                try writer.put(DatabaseRecord(id: "elsewhere", createdAtSeconds: 1))
                try writer.put(
                    SigningKeyRecord(
                        id: "elsewhere.1", publicKey: elsewhere.publicKey.compressedPoint, sealedPEM: "s",
                        createdAtSeconds: 1))
                try writer.put(
                    APIKeyRecord(
                        id: key.id, database: TestBench.database, name: "k", secretHash: key.secretHash,
                        permissions: .everything, createdAtSeconds: 1, expiresAtSeconds: now + 3_600))
                try writer.put(
                    Revocation(
                        database: TestBench.database, subject: .token, value: "gone", sinceSeconds: 1))
            }
            let strangers = TestBench(
                folder: bench.folder, log: bench.log, key: elsewhere, address: bench.address)
            let bound = bench.token(grant: .everything, peerKey: "own")
            let nothing: TestBench.Proof = { _, _ in nil }
            let cells: [(kind: String, credential: String, proof: TestBench.Proof, outcome: String)] = [
                ("none", "", TestBench.proven, "401"), ("garbage", "nonsense", TestBench.proven, "401"),
                ("expired", bench.token(validForSeconds: -120), TestBench.proven, "401"),
                (
                    "revoked", bench.token(grant: .everything, tokenID: "gone"), TestBench.proven, "401"
                ),
                // It counts, for its own database; the greeting asks for this one.
                (
                    "another database's", strangers.token(database: "elsewhere", grant: .everything),
                    TestBench.proven, "SYNC-0202"
                ),
                ("read only", bench.token(grant: .readOnly), TestBench.proven, "opens"),
                ("everything", bench.token(grant: .everything), TestBench.proven, "opens"),
                ("API key", key.text, TestBench.proven, "opens"),
                ("another API key", APIKey().text, TestBench.proven, "401"),
                ("admin credential", SystemBench.adminCredential, TestBench.proven, "401"),
                ("peer key, proven", bound, TestBench.proven, "opens"),
                ("peer key, not proven", bound, nothing, "SYNC-0505"),
            ]
            for cell in cells {
                var found = "opens"
                do {
                    let frames = try await bench.converse(
                        token: cell.credential, [], until: { !$0.isEmpty }, proof: cell.proof)
                    found = frames.closeCode ?? found
                } catch let error as WebSocketError {
                    found = error.status.map { "\($0)" } ?? error.code.rawValue
                }
                #expect(found == cell.outcome, "\(cell.kind)")
            }
        }
    }

    private func seed(_ bench: TestBench) async throws {
        let writer = try bench.peer("seed")
        try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'own'}), ({'_id': 'other'})")
        let last = try writer.execute("INSERT INTO boats DOCUMENTS ({'_id': 'b'})")
        writer.sync.start()
        #expect(try await writer.isAcknowledged(last, within: .seconds(60)))
        await writer.sync.stop()
    }

    @Test("who is revoked loses the running session with SYNC-0504, and gets no other one")
    func revoked() async throws {
        try await SystemBench.run { bench, system in
            let access = bench.token(grant: .everything, tokenID: "t1")
            let key = APIKey()
            try await system.write { writer in
                try writer.put(
                    APIKeyRecord(
                        id: key.id, database: TestBench.database, name: "k", secretHash: key.secretHash,
                        permissions: .everything, createdAtSeconds: 1,
                        expiresAtSeconds: SystemClock.seconds() + 3_600))
            }
            for (token, id) in [(access, "t1"), (key.text, key.id)] {
                let (greeted, hasGreeted) = AsyncStream.makeStream(of: Void.self)
                async let frames = bench.converse(
                    token: token, [],
                    until: { _ in
                        hasGreeted.yield()
                        return false
                    })
                for await _ in greeted { break }
                try await system.write {
                    try $0.put(
                        Revocation(
                            database: TestBench.database, subject: .token, value: id, sinceSeconds: 1))
                }
                #expect(try await frames.closeCode == "SYNC-0504")
                do {
                    _ = try await bench.converse(token: token, [], until: { _ in true })
                    Issue.record("a revoked token gets a session")
                } catch let error as WebSocketError {
                    #expect(error.status == 401)
                }
            }
        }
    }
}

extension PermissionTests {
    @Test("a session ends when the key that signed its token retires, though nothing is written then")
    func retired() async throws {
        let retires = SystemClock.seconds() + 3_600
        let now = Mutex(retires - 1)
        try await SystemBench.run(
            rightsLook: .milliseconds(20), nowSeconds: { now.withLock { $0 } }
        ) { bench, system in
            let id = bench.key.keyID.description
            try await system.write {
                try $0.put(
                    SigningKeyRecord(
                        id: id, publicKey: bench.key.publicKey.compressedPoint, sealedPEM: "sealed",
                        createdAtSeconds: 1, retiresAtSeconds: retires))
            }
            // Issued for long: it is the key that ends.
            let token = AccessToken.issue(
                Identity(
                    userID: "tester", databaseID: TestBench.database, peerKey: nil, grant: .everything,
                    expiresAtSeconds: retires + 3_600), with: bench.key,
                nowSeconds: SystemClock.seconds())
            let (greeted, hasGreeted) = AsyncStream.makeStream(of: Void.self)
            async let frames = bench.converse(
                token: token, [],
                until: { frames in
                    hasGreeted.yield()
                    return frames.closeCode != nil
                })
            for await _ in greeted { break }
            now.withLock { $0 = retires }
            #expect(try await frames.closeCode == "SYNC-0504")
        }
    }
}

/// A replicator that follows a system database, which a test writes as the auth-gateway does.
private enum SystemBench {
    /// Opens the replicator's admin calls, and nothing else.
    static let adminCredential = Base64URL.encode((0..<32).map { UInt8($0) })

    static func run(
        rightsLook: Duration = Replicator.Limits.rightsLook,
        nowSeconds: @escaping @Sendable () -> Int64 = SystemClock.seconds,
        besides other: DatabasePublicKey? = nil,
        _ body: @escaping @Sendable (TestBench, SystemDatabase) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase(TestBench.database)
            let key = try DatabaseSigningKey(databaseID: TestBench.database, number: 1)
            let system = SystemDatabase(
                log: log, folder: folder.appendingPathComponent("system").path, logger: TestBench.quiet)
            let source = InMemoryKeySource(KeySet([key.publicKey] + [other].compactMap(\.self)))
            let admin = folder.appendingPathComponent("admin.token")
            try Data(adminCredential.utf8).write(to: admin)
            let part = ReplicatorPart(
                log: log,
                authenticator: Authenticator(source: source, system: system, nowSeconds: nowSeconds),
                materializations: TestBench.materializations(of: log, folder, "replicator"),
                admin: AdminCredential(path: admin.path), rightsLook: rightsLook, logger: TestBench.quiet)
            let parts: [any ServicePart] = [SystemDatabasePart(system), part]
            let host = ServiceHost(parts: parts, listen: .anyLoopbackPort, logger: TestBench.quiet)
            try await host.run { address in
                try await system.write {
                    try $0.put(DatabaseRecord(id: TestBench.database.text, createdAtSeconds: 1))
                }
                let bench = TestBench(folder: folder, log: log, key: key, address: address, part: part)
                try await body(bench, system)
            }
            await log.close()
        }
    }
}
