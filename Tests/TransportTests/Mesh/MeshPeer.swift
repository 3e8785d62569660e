import CRDT
import DQL
import Exchange
import Foundation
import Logging
import Machine
import Sync
import Synchronization
import TestSupport

@testable import Replica
@testable import Transport

/// One small peer of a mesh in a test: a store on disk, its feed, and what it subscribes to.
final class MeshPeer {
    /// What is to be done soon, where nothing is locked.
    final class Later: Sendable {
        private let work = Mutex<[@Sendable () -> Void]>([])

        func add(_ body: @escaping @Sendable () -> Void) { work.withLock { $0.append(body) } }

        /// Does the first; false when there is nothing.
        func step() -> Bool {
            guard let body = work.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) else { return false }
            body()
            return true
        }
    }

    let name: String
    let folder: URL
    private let milliseconds: @Sendable () -> UInt64
    private let hasServer: Bool
    private let random: Mutex<SplitMix64>
    private(set) var replica: PeerReplica
    /// The actor as which it began to write.
    let firstActor: ActorID
    private(set) var feed: MeshFeed
    private(set) var later = Later()
    /// Statements that it subscribes to, and their keys.
    private(set) var statements: [String: [UInt8]] = [:]
    /// The contents of the store's file when it was kept.
    private var kept: [String: Data]?
    private let written = Written()

    /// The writes that a server has ever refused, as it said so.
    var refusals: [Refusal] = []

    /// Operations as they were committed.
    private final class Written: Sendable {
        let operations = Mutex<[OwnOperation]>([])
    }

    init(
        _ name: String, in folder: URL, seed: UInt64, hasServer: Bool = false,
        milliseconds: @escaping @Sendable () -> UInt64
    ) throws {
        self.hasServer = hasServer
        self.name = name
        self.folder = folder.appendingPathComponent(name)
        self.milliseconds = milliseconds
        random = Mutex(SplitMix64(seed: seed))
        replica = try Self.open(self.folder, milliseconds, random)
        firstActor = replica.actor
        feed = try Self.begin(replica, hasServer, later)
        noteWrites()
    }

    static let quiet: Logger = {
        var logger = Logger(label: "mesh")
        logger.logLevel = .critical
        return logger
    }()

    private static func open(
        _ folder: URL, _ milliseconds: @escaping @Sendable () -> UInt64, _ random: borrowing Mutex<SplitMix64>
    ) throws -> PeerReplica {
        let seed = random.withLock { $0.next() }
        let own = Drawn(seed: seed)
        return try PeerReplica(
            directory: folder.path,
            environment: Environment(
                wallMilliseconds: milliseconds, random: { own.next() }, pause: { _ in }),
            logger: quiet)
    }

    private static func begin(
        _ replica: PeerReplica, _ hasServer: Bool, _ later: Later
    ) throws -> MeshFeed {
        try MeshFeed(
            replica: replica, hasServer: hasServer, setsLiveQueries: true, executor: .inline,
            later: { later.add($0) }, logger: quiet)
    }

    private final class Drawn: Sendable {
        private let state: Mutex<SplitMix64>
        init(seed: UInt64) { state = Mutex(SplitMix64(seed: seed)) }
        func next() -> UInt64 { state.withLock { $0.next() } }
    }

    func close() throws {
        feed.close()
        try replica.close()
    }

    // MARK: Its application

    func subscribe(_ statement: String) throws {
        statements[statement] = try feed.subscribe(statement: statement)
    }

    func unsubscribe(_ statement: String) throws {
        guard let key = statements.removeValue(forKey: statement) else { return }
        try feed.unsubscribe(key)
    }

    @discardableResult
    func execute(_ statement: String, as actor: Bool = true) throws -> UInt64 {
        let prepared = try PreparedStatement(statement)
        return try replica.write { transaction in
            _ = try prepared.execute(
                in: transaction, arguments: ObjectValue(), options: ExecutionOptions()
            ) { throw MeshTestError.noID }
        }.commit
    }

    enum MeshTestError: Error { case noID }

    /// The time that its clock shows.
    var now: UInt64 { milliseconds() }

    private func noteWrites() {
        _ = replica.addListener { [written] commit in
            guard let operation = commit.operation else { return }
            written.operations.withLock { $0.append(operation) }
        }
    }

    /// Everything that it ever wrote, also what was lost when it was put back.
    var operations: [OwnOperation] { written.operations.withLock { $0 } }

    // MARK: What it holds

    func state(_ key: DocumentKey) throws -> EncodedState? { try replica.read { try $0.state(of: key) } }

    /// The void stamps of a document, as links are told them.
    func void(_ key: DocumentKey) throws -> VersionVector {
        try replica.read { try $0.withDatabase { try Notes.void(key, $0) } } ?? VersionVector()
    }

    /// Returns whether a document holds a void stamp, as far as it is known here.
    func isQuarantined(_ key: DocumentKey) throws -> Bool {
        try replica.read { try $0.state(of: key) != nil && $0.toldState(of: key) == nil }
    }

    /// Returns whether a document is shown by one of its subscriptions.
    func matches(_ key: DocumentKey, _ document: Document) throws -> Bool {
        guard document.isLive else { return false }
        let bytes = document.encoded()
        return try bytes.withUnsafeBytes { raw in
            let record = DocumentRecord(id: key.id, document: try DocumentReader(raw))
            return try statements.keys.contains { try SubscriptionQuery(statement: $0).matches(record) }
        }
    }

    // MARK: Misfortunes

    /// Restarts the store; its links must have ended.
    func restart(putBack: Bool = false, keeping: Bool = false, knowing: Bool = true) throws {
        feed.close()
        try replica.close()
        if keeping { kept = try contents() }
        // In place: the file stays the same, so nothing tells the store but its history.
        if putBack, let kept { try write(kept) }
        later = Later()
        replica = try Self.open(folder, milliseconds, random)
        if putBack, knowing, kept != nil { try replica.renewActor(replica.actor) }
        feed = try Self.begin(replica, hasServer, later)
        noteWrites()
        for statement in statements.keys.sorted() { try subscribe(statement) }
    }

    var isKept: Bool { kept != nil }

    private func contents() throws -> [String: Data] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        return try Dictionary(
            uniqueKeysWithValues: names.filter { $0 != "lock" }.map {
                ($0, try Data(contentsOf: folder.appendingPathComponent($0)))
            })
    }

    private func write(_ files: [String: Data]) throws {
        for (name, data) in files {
            let handle = try FileHandle(forWritingTo: folder.appendingPathComponent(name))
            try handle.truncate(atOffset: 0)
            try handle.write(contentsOf: data)
            try handle.close()
        }
    }
}
