import CRDT
import DQL
import Exchange
import Foundation
import Identity
import Machine
import OperationLog
import Replicator
import ServiceKit
import Sync
import Synchronization

@testable import Replica
@testable import Transport

/// The time of a mesh in a test, which passes as the test says.
final class MeshClock: Sendable {
    private let time = Mutex<UInt64>(1_800_000_000_000)

    var now: UInt64 { time.withLock { $0 } }

    func pass(_ milliseconds: UInt64) { time.withLock { $0 += milliseconds } }
}

/// A server in a mesh's test: the shipped replicator over a log on disk, without sockets.
final class MeshServer {
    static let database: DatabaseID = "d"
    private(set) var log: SQLiteOperationLog
    private(set) var hub: DatabaseHub
    private let clock: MeshClock
    private let folder: URL

    init(in folder: URL, _ clock: MeshClock) async throws {
        self.clock = clock
        self.folder = folder.appendingPathComponent("server")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        (log, hub) = try await Self.open(self.folder, clock)
    }

    private static func open(
        _ folder: URL, _ clock: MeshClock
    ) async throws -> (SQLiteOperationLog, DatabaseHub) {
        let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
        try await log.createDatabase(database)
        let hub = try await DatabaseHub.open(
            database, log: log, folder: folder.appendingPathComponent("fold").path, logger: MeshPeer.quiet,
            environment: Environment(
                wallMilliseconds: { [clock] in clock.now },
                random: { UInt64.random(in: 0...UInt64.max) }, pause: { _ in }))
        return (log, hub)
    }

    func close() async {
        await hub.close()
        await log.close()
    }

    /// Keeps a copy of the log as it is now. No session may be open, here and in `restore`.
    func backUp() async throws { try await reopening { try copyLog(from: folder, to: backup) } }

    /// Puts the log back to what it was when it was backed up; the fold has what it lacks then.
    func restore() async throws { try await reopening { try copyLog(from: backup, to: folder) } }

    private var backup: URL { folder.appendingPathComponent("backup") }

    private func reopening(_ body: () throws -> Void) async throws {
        await close()
        try body()
        (log, hub) = try await Self.open(folder, clock)
    }

    private func copyLog(from source: URL, to target: URL) throws {
        let files = FileManager.default
        func logFiles(_ folder: URL) throws -> [String] {
            try files.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("log.sqlite") }
        }
        try files.createDirectory(at: target, withIntermediateDirectories: true)
        for name in try logFiles(target) {
            try files.removeItem(at: target.appendingPathComponent(name))
        }
        for name in try logFiles(source) {
            try files.copyItem(
                at: source.appendingPathComponent(name), to: target.appendingPathComponent(name))
        }
    }

    /// Every right, but for writing some documents.
    static func grant(withoutWriting ids: Set<Int>, of all: Range<Int>) -> Grant {
        let left = all.filter { !ids.contains($0) }.map { "_id = \($0)" }
        return Grant(
            read: .everything, write: AccessRules(queriesByCollection: ["c": left]), queryLanguage: 1)
    }

    /// The time that its clock shows.
    var now: UInt64 { clock.now }

    /// The store of a session that may do everything.
    var asker: ServerStore {
        let identity = Identity(
            userID: "asker", databaseID: Self.database, peerKey: "asker", grant: .everything,
            expiresAtSeconds: .max)
        return ServerStore(hub: hub, log: log, database: Self.database, session: 1_000, identity: identity)
    }

    /// Performs what a session asks for.
    func ask(_ action: Action) async throws -> Event? {
        let answer = try await asker.perform(action)
        try await flush()
        return answer
    }

    /// Everything in the log is folded, and the sessions have been told.
    func flush() async throws {
        try await hub.materializer.advance()
        while hub.tellProgress() < (await hub.materializer.position).offset {
            // The fold hands on what it has folded in a task of its own.
            try await Task.sleep(for: .microseconds(200))
        }
    }

    func state(_ key: DocumentKey) async throws -> EncodedState? {
        try hub.materializer.replica.read { try $0.state(of: key) }
    }

    /// The vector of a document; empty for none, and for one that was reaped.
    func vector(of key: DocumentKey) async throws -> VersionVector {
        try await state(key).map { try Document(decoding: $0).vector } ?? VersionVector()
    }

    /// Returns whether all operations that a vector names are in the log.
    func hasFolded(_ vector: VersionVector) throws -> Bool {
        try hub.materializer.replica.read { transaction in
            try transaction.withDatabase { database in
                try vector.entries.allSatisfy { entry in
                    try FoldedFrontier.progress(of: entry.actor, database)?.timestamp ?? 0 >= entry.time
                }
            }
        }
    }

    /// The server's operations that hold states: deletions anew, and documents that it was given.
    func states() async throws -> [CRDT.Operation] {
        var states: [CRDT.Operation] = []
        var offset: Offset = 0
        while case let entries = try await log.read(Self.database, after: offset), let last = entries.last {
            offset = last.offset
            for entry in entries {
                let operation = try CRDT.Operation(decoding: entry.bytes)
                let holdsState = try operation.changes.contains { change in
                    let logged = try LoggedChange(decoding: change.delta, stamp: operation.stamp)
                    if case .state = logged { return true } else { return false }
                }
                if holdsState { states.append(operation) }
            }
        }
        return states
    }

    /// Reaps all tombstones that the frontier covers.
    func reap() async throws -> Int {
        clock.pass(10)
        var options = HousekeepingOptions()
        options.tombstoneTimeToLive = .milliseconds(1)
        options.snapshotOperations = nil
        let housekeeper = Housekeeper(
            materializer: hub.materializer, log: log, database: Self.database, options: options,
            logger: MeshPeer.quiet, wallMilliseconds: { [clock] in clock.now })
        let reaped = try await housekeeper.turn(reaps: true)?.reaped ?? 0
        try await flush()
        return reaped
    }
}

/// A session of a small peer with the server, whose events are handled one at a time as the test says: the
/// first end is the peer's.
final class MeshServerRun {
    private let peer: MeshPeer
    private let server: MeshServer
    private let origin: UInt64
    private let near: PeerStore
    private let far: ServerStore
    private var sessions: [Session]
    private let events = [MeshLinkRun.Waiting(), MeshLinkRun.Waiting()]
    private var arriving: [[[UInt8]]] = [[], []]
    private var listener: Int?
    private(set) var reasons: [SyncError?] = [nil, nil]
    private let heard: Heard

    private final class Heard: Sendable {
        let reports = Mutex<[Report]>([])
    }

    /// `checksOwn`: the peer knows its grant, as an application's does from its token.
    init?(
        _ peer: MeshPeer, _ server: MeshServer, grant: Grant = .everything, checksOwn: Bool = false,
        at now: UInt64
    ) async throws {
        guard let origin = await server.hub.enter() else { return nil }
        self.peer = peer
        self.server = server
        self.origin = origin
        let heard = Heard()
        self.heard = heard
        near = PeerStore(
            replica: peer.replica, executor: .inline,
            report: { report in heard.reports.withLock { $0.append(report) } }, acknowledged: {})
        let identity = Identity(
            userID: peer.name, databaseID: MeshServer.database, peerKey: peer.name, grant: grant,
            expiresAtSeconds: .max)
        far = ServerStore(
            hub: server.hub, log: server.log, database: MeshServer.database, session: origin,
            identity: identity)
        let rights = identity.rights
        let rules: Session.WriteRules = { rights.write.allows($0) }
        var ownRules: (@Sendable () -> Session.WriteRules?)?
        if checksOwn { ownRules = { rules } }
        sessions = [
            Session(
                Session.Configuration(
                    role: .peer, databaseID: MeshServer.database, peerKey: peer.name,
                    wallMilliseconds: peer.now,
                    access: ReadAccess(collection: { _ in false }),
                    writeRules: ownRules)),
            Session(
                Session.Configuration(
                    role: .server(origin: origin), databaseID: MeshServer.database, peerKey: "",
                    wallMilliseconds: now, access: .everything)),
        ]
        let subscriptions = try peer.statements.keys.sorted().map {
            try LiveSubscription(statement: $0, arguments: ObjectValue())
        }
        try peer.replica.discardStaged(but: subscriptions.map(\.key))
        let told = events[0]
        for subscription in subscriptions {
            told.put(.subscribe(try subscription.request(from: peer.replica)))
        }
        listener = peer.replica.addListener { commit in
            if let actor = commit.actor { told.put(.ownOperationAdded(actor)) }
            if !commit.wanted.isEmpty { told.put(.wanted(commit.wanted)) }
            if commit.isMeshed { told.put(.linksBrought) }
        }
    }

    var isOver: Bool { reasons.contains { $0 != nil } }

    /// The writes that the server has refused in this session.
    var refusals: [Refusal] {
        heard.reports.withLock { reports in
            reports.compactMap { if case .writeRefused(let refusal) = $0 { refusal } else { nil } }
        }
    }

    /// The connection breaks.
    func cut() async {
        for place in [0, 1] where reasons[place] == nil {
            _ = sessions[place].receive(.disconnected)
            reasons[place] = SyncError(.unavailable, "cut")
        }
        await leave()
    }

    /// Runs both ends until nothing is left to do.
    func settle() async throws {
        var moves = true
        while moves {
            moves = false
            for place in [0, 1] {
                while try await step(place) { moves = true }
                while peer.later.step() { moves = true }
            }
            try await server.flush()
        }
    }

    private func leave() async {
        guard let token = listener else { return }
        listener = nil
        peer.replica.removeListener(token)
        peer.replica.correctClock(byMilliseconds: 0)
        await server.hub.leave(origin)
    }

    /// Does one thing at an end: an event, or else a frame that has arrived. False when there is nothing.
    func step(_ place: Int) async throws -> Bool {
        guard !isOver else { return false }
        if let event = events[place].next {
            try await handle(event, at: place)
            return true
        }
        guard !arriving[place].isEmpty else { return false }
        try await handle(.frame(arriving[place].removeFirst()), at: place)
        return true
    }

    private func handle(_ event: Event, at place: Int) async throws {
        let actions = sessions[place].receive(event)
        sessions[place].checkInvariants()
        let events = events[place]
        for action in actions {
            switch action {
            case .send(let frame):
                arriving[1 - place].append(frame)
                if place == 1, case .refused(let refusal)? = try? Frame(decoding: frame) {
                    peer.refusals.append(refusal)
                }
            case .close(let reason):
                reasons[place] = reason
                await leave()
            case .awaitOperations(let offset) where place == 1:
                _ = far.follow(after: offset) { events.put($0) }
            default:
                let answer = try await place == 0 ? near.perform(action) : far.perform(action)
                if place == 1 { try await server.flush() }
                if let answer { events.put(answer) }
            }
        }
    }
}
