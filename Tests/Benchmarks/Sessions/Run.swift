import CRDT
import DQL
import Exchange
import Foundation
import Identity
import Logging
import Machine
import OperationLog
import Replica
import Replicator
import Sync
import Synchronization
import Transport

let database: DatabaseID = "db"

/// Peer and server over a pipe, until the peer has what is being measured.
struct Run {
    let logger: Logger
    let folder: URL

    func environment() -> Environment {
        Environment(
            wallMilliseconds: { UInt64(Date().timeIntervalSince1970 * 1000) },
            random: { UInt64.random(in: 0...UInt64.max) }, pause: { _ in usleep(10_000) })
    }

    func replica(_ name: String) throws -> PeerReplica {
        try PeerReplica(
            directory: folder.appendingPathComponent(name).path, environment: environment(),
            logger: logger)
    }

    /// Runs both sessions until `isDone` says so of an action that the peer's store has performed, or of a
    /// report; how long that took.
    func converse(
        _ replica: PeerReplica, with server: some SessionStore, origin: UInt64,
        until isDone: @escaping @Sendable (Action) -> Bool
    ) async throws -> Duration {
        let (near, far) = PipeEnd.pair()
        let (done, finish) = AsyncStream.makeStream(of: Void.self)
        let executor = BlockingExecutor(label: "peer", isSerial: true)
        let store = WatchedStore(
            store: PeerStore(
                replica: replica, executor: executor, report: { _ in }, acknowledged: {})
        ) { if isDone($0) { finish.finish() } }
        let peerPump = SessionPump(store: store, logger: logger)
        let serverPump = SessionPump(store: server, logger: logger)
        let live = try LiveSubscription(statement: "SELECT * FROM orders", arguments: ObjectValue())
        replica.setLiveQueries([live.query])
        peerPump.deliver(.subscribe(try live.request(from: replica)))
        func session(_ role: Session.Role) -> Session {
            Session(
                Session.Configuration(
                    role: role, databaseID: database, peerKey: "peer",
                    wallMilliseconds: environment().wallMilliseconds(), access: .everything))
        }
        let started = ContinuousClock.now
        let peer = Task { await peerPump.run(session(.peer), over: near.channel) }
        let other = Task { await serverPump.run(session(.server(origin: origin)), over: far.channel) }
        let ended = Task {
            let reason = await peer.value
            finish.finish()
            return reason
        }
        for await _ in done {}
        let duration = ContinuousClock.now - started
        peer.cancel()
        other.cancel()
        let reason = await ended.value
        _ = await other.value
        check(reason.code == SyncErrorCode.goingAway.rawValue, "the session ended by itself: \(reason)")
        return duration
    }
}

/// A store that tells of what it has performed.
struct WatchedStore: SessionStore {
    let store: PeerStore
    let performed: @Sendable (Action) -> Void

    func perform(_ action: Action) async throws -> Event? {
        let answer = try await store.perform(action)
        performed(action)
        return answer
    }
}

/// A server whose live stream is there already: what folding costs is shared by all its sessions, and is
/// measured with the log. It begins when `open` is called.
final class LiveFeed: SessionStore {
    let start: LogPosition
    let operations: [FoldedOperation]
    private let gate: AsyncStream<Void>
    private let opening: AsyncStream<Void>.Continuation

    init(start: LogPosition, operations: [FoldedOperation]) {
        self.start = start
        self.operations = operations
        (gate, opening) = AsyncStream.makeStream(of: Void.self)
    }

    func open() { opening.finish() }

    func perform(_ action: Action) async throws -> Event? {
        switch action {
        case .readFrontier: return .frontier([], head: start, isBehind: false)
        case .readPage(let id, _, _, _, _):
            return .page(
                subscription: id,
                CatchUpPage(documents: [], candidates: [], offset: start.offset, head: start))
        case .awaitOperations(let offset):
            for await _ in gate {}
            let first = start.offset.distance(to: offset)
            guard first < operations.count, !Task.isCancelled else { return nil }
            let batch = Array(operations[first..<min(first + 512, operations.count)])
            return .operations(batch, through: batch[batch.count - 1].position)
        default: return nil
        }
    }
}
