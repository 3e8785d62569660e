import CRDT
import DQL
import Foundation
import Identity
import Logging
import Machine
import OperationLog
import Replica
import Replicator
import ServiceKit
import Sync
import Synchronization
import TestSupport
import Testing
import Transport
import WebSocket

/// A replicator on a free loopback port over a log in a temporary folder, and peers that sync with it.
struct TestBench {
    static let database: DatabaseID = "bench"
    let folder: URL
    let log: SQLiteOperationLog
    let key: DatabaseSigningKey
    let address: ListenAddress
    var part: ReplicatorPart?

    /// Runs `body` with a replicator; everything is stopped and removed afterwards.
    static func run(
        sessions: SessionOptions = SessionOptions(), evaluation: EvaluationOptions = EvaluationOptions(),
        _ body: @escaping @Sendable (TestBench) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            try await serve(folder, sessions: sessions, evaluation: evaluation, body)
        }
    }

    /// The same over what an earlier replicator has left in the folder.
    static func serve(
        _ folder: URL, sessions: SessionOptions = SessionOptions(),
        evaluation: EvaluationOptions = EvaluationOptions(),
        _ body: @escaping @Sendable (TestBench) async throws -> Void
    ) async throws {
        let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
        try await log.createDatabase(database)
        try await serve(folder, over: log, log, sessions: sessions, evaluation: evaluation, body)
        await log.close()
    }

    /// The same over a log that may be another one than `log` behind its back.
    static func serve(
        _ folder: URL, over served: any OperationLog, _ log: SQLiteOperationLog,
        sessions: SessionOptions = SessionOptions(),
        housekeeping: HousekeepingOptions = HousekeepingOptions(),
        evaluation: EvaluationOptions = EvaluationOptions(), system: SystemDatabase? = nil,
        _ body: @escaping @Sendable (TestBench) async throws -> Void
    ) async throws {
        let key = try DatabaseSigningKey(databaseID: database, number: 1)
        let source = InMemoryKeySource()
        source.insert(key.publicKey)
        let part = ReplicatorPart(
            log: served, authenticator: Authenticator(source: source, system: system),
            materializations: materializations(of: served, folder, "replicator"),
            housekeeping: housekeeping,
            sessions: sessions, pool: EvaluationPool(evaluation), logger: quiet)
        let parts: [any ServicePart] = system.map { [SystemDatabasePart($0), part] } ?? [part]
        try await ServiceHost(parts: parts, listen: .anyLoopbackPort, logger: quiet).run { address in
            try await body(TestBench(folder: folder, log: log, key: key, address: address, part: part))
        }
    }

    static func materializations(
        of log: any OperationLog, _ folder: URL, _ name: String
    ) -> Materializations {
        Materializations(of: log, folder: folder.appendingPathComponent(name).path, logger: quiet)
    }

    static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }

    /// A token for the database with a grant of everything.
    func token(validForSeconds: Int64 = 3_600) -> String {
        let now = SystemClock.seconds()
        return AccessToken.issue(
            Identity(
                userID: "tester", databaseID: Self.database, peerKey: nil, grant: .everything,
                expiresAtSeconds: now + validForSeconds), with: key, nowSeconds: now)
    }

    /// A peer with a store of its own, not yet syncing.
    func peer(
        _ name: String, grant: Grant = .everything, token given: String? = nil,
        environment: Environment = .system,
        newestToken: @escaping @Sendable () -> String? = { nil },
        proof: @escaping @Sendable (String, String) -> [UInt8]? = { _, _ in nil },
        writeRules: @escaping @Sendable (String) -> Session.WriteRules? = { _ in nil },
        notify: @escaping @Sendable (PeerSync.Notice) -> Void = { _ in }
    ) throws -> TestPeer {
        let replica = try PeerReplica(
            directory: folder.appendingPathComponent(name).path, environment: environment,
            logger: Self.quiet)
        let token = given ?? token(grant: grant)
        guard let url = URL(string: "ws://127.0.0.1:\(address.port)/_ditto/sync") else {
            preconditionFailure("a loopback address is a URL")
        }
        var configuration = PeerSync.Configuration(
            address: try WebSocketAddress(url), databaseID: Self.database, peerKey: "", token: { token })
        configuration.newestToken = newestToken
        configuration.proof = proof
        configuration.writeRules = writeRules
        let sync = PeerSync(
            replica: replica, configuration: configuration, environment: environment, logger: Self.quiet,
            notify: notify)
        return TestPeer(replica: replica, sync: sync)
    }
}

/// A peer's store and its sync engine.
struct TestPeer {
    let replica: PeerReplica
    let sync: PeerSync

    @discardableResult
    func execute(_ statement: String, _ arguments: ObjectValue = ObjectValue()) throws -> UInt64 {
        let prepared = try PreparedStatement(statement)
        return try replica.write { transaction in
            try prepared.execute(
                in: transaction, arguments: arguments,
                idGenerator: { Environment.system.generateDocumentID() })
        }.commit
    }

    func rows(_ statement: String) throws -> [String] {
        let prepared = try PreparedStatement(statement)
        return try replica.read { transaction in
            try prepared.rows(in: transaction).map { JSONText.print($0, sortedKeys: true) }
        }
    }

    /// Whether the server has everything up to a commit, waiting at most `timeout`.
    func isAcknowledged(_ commit: UInt64, within timeout: Duration = .seconds(60)) async throws -> Bool {
        try await eventually(within: timeout) { try replica.acknowledgedCommit() >= commit }
    }
}

/// Whether a condition becomes true in time.
func eventually(
    within timeout: Duration = .seconds(60), _ condition: () async throws -> Bool
) async throws -> Bool {
    let end = ContinuousClock.now + timeout
    while ContinuousClock.now < end {
        if try await condition() { return true }
        try await Task.sleep(for: .milliseconds(20))
    }
    return try await condition()
}

extension TestBench {
    /// An operation of actor 1 that inserts a document of its own into `c`.
    static func insertion(_ number: UInt64) throws -> CRDT.Operation {
        let stamp = Stamp(time: number << 16, actor: ActorID(1))
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        editor.create()
        try editor.set(["n"], .int(Int64(number)))
        let delta = try #require(editor.pending.delta(stamp: stamp))
        let change = CRDT.Operation.Change(
            collection: "c", id: try DocumentID(.int(Int64(number))), delta: delta.encoded())
        return CRDT.Operation(
            actor: stamp.actor, sequence: SequenceNumber(number), timestamp: stamp.time, changes: [change])
    }
}
