import CRDT
import DQL
import Exchange
import Identity
import Logging
import Machine
import OperationLog
import Replica
import ServiceKit
import Sync
import Synchronization

/// One database in this replicator: its materialization, its live stream, its sessions.
///
/// It opens, closes and registers. A write goes: session -> `Admission` (checks against the materialization)
/// -> log (durable, acknowledged) -> materializer (folds, in log order) -> `LiveStream` -> every session at
/// its own position.
///
/// Actor isolation guards the sessions. Waiting sessions belong to `feed`, so that they request and receive
/// operations without a turn here.
package actor DatabaseHub {
    package nonisolated let materializer: Materializer
    private nonisolated let fold: HubFold
    /// Clock and randomness.
    nonisolated let environment: Environment
    let log: any OperationLog
    let database: DatabaseID
    /// The way of the sessions' writes into the log.
    nonisolated let admission: Admission
    /// The distinct queries that sessions follow; a change is evaluated once for each.
    nonisolated let queries: QueryIndex
    private nonisolated let feed: LiveFeed
    private nonisolated let frames = SharedFrames()
    private nonisolated let folds: FoldQueue<[FoldedOperation]>
    /// The peers that are there, as sessions say.
    package nonisolated let presence = PresenceRegistry()
    private var nextSession: UInt64 = 0
    private var entered: Set<UInt64> = []
    var sessions: Int { entered.count }
    /// The running sessions: whose each is, and how it is told something.
    private var running: [UInt64: Running] = [:]

    private struct Running {
        let rights: SessionRights
        let sinceMilliseconds: UInt64
        let load: @Sendable () -> SessionReport.Load
        let end: @Sendable (SyncError) -> Void
    }

    /// Parts of large uploads that broken connections have brought, by peer key, and the session that kept
    /// each; the latest last.
    private var partials: [(key: String, session: UInt64, message: PartialMessage)] = []
    private var follower: Task<Void, Never>?
    private let whenLost: @Sendable (DatabaseHub) -> Void
    /// True while it is being closed: sessions find another one.
    private var isRetired = false

    /// Opens a database over a share of its materialization. `erased` names the documents that an operator
    /// has erased. `whenLost` is called when the log is found to lack the folded history or the next entries:
    /// this hub is unusable then.
    static func open(
        _ database: DatabaseID, log: any OperationLog, sharing materializations: Materializations,
        erased: @escaping @Sendable () -> ErasedDocuments? = { nil },
        whenLost: @escaping @Sendable (DatabaseHub) -> Void = { _ in }
    ) async throws -> DatabaseHub {
        try await open(database, log, .system, AdmissionBounds(), erased, whenLost) { onFold in
            HubFold(share: try await materializations.open(database, onFold: onFold))
        }
    }

    /// The same over a materialization of its own, in a folder: for simulations and benchmarks.
    package static func open(
        _ database: DatabaseID, log: any OperationLog, folder: String, logger: Logger,
        environment: Environment = .system,
        executor: BlockingExecutor = BlockingExecutor(label: "mimeo.materializer", isSerial: false),
        bounds: AdmissionBounds = AdmissionBounds(),
        erased: @escaping @Sendable () -> ErasedDocuments? = { nil },
        whenLost: @escaping @Sendable (DatabaseHub) -> Void = { _ in }
    ) async throws -> DatabaseHub {
        try await open(database, log, environment, bounds, erased, whenLost) { onFold in
            HubFold(
                owned: try await Materializer.open(
                    database, log: log, folder: folder, logger: logger, environment: environment,
                    executor: executor, onFold: onFold))
        }
    }

    private static func open(
        _ database: DatabaseID, _ log: any OperationLog, _ environment: Environment,
        _ bounds: AdmissionBounds, _ erased: @escaping @Sendable () -> ErasedDocuments?,
        _ whenLost: @escaping @Sendable (DatabaseHub) -> Void,
        fold: (@escaping @Sendable ([FoldedOperation]) async -> Void) async throws -> HubFold
    ) async throws -> DatabaseHub {
        let folds = FoldQueue<[FoldedOperation]>()
        // Nobody hears of what is folded before the live stream begins, so nothing of it is kept.
        let isFollowed = Gate()
        let fold = try await fold { folded in if isFollowed.isOpen { await folds.put(folded) } }
        let materializer = fold.materializer
        // Read what is there before the first session, so that the live stream begins at the head.
        let term = log.term
        do {
            try await withTaskCancellationHandler {
                try await materializer.advance()
            } onCancel: {
                // A caller that stops does not wait for a long fold.
                Task { await fold.close() }
            }
        } catch {
            await fold.close()
            throw error
        }
        isFollowed.open()
        let hub = DatabaseHub(
            database, log, fold, environment, LiveStream(head: await materializer.position), folds,
            bounds, term, erased, whenLost)
        await hub.follow(from: await materializer.position.offset)
        return hub
    }

    private init(
        _ database: DatabaseID, _ log: any OperationLog, _ fold: HubFold,
        _ environment: Environment, _ stream: LiveStream,
        _ folds: FoldQueue<[FoldedOperation]>, _ bounds: AdmissionBounds, _ term: UInt64,
        _ erased: @escaping @Sendable () -> ErasedDocuments?,
        _ whenLost: @escaping @Sendable (DatabaseHub) -> Void
    ) {
        self.whenLost = whenLost
        self.database = database
        self.log = log
        self.fold = fold
        materializer = fold.materializer
        self.environment = environment
        queries = QueryIndex()
        feed = LiveFeed(stream, queries)
        self.folds = folds
        admission = Admission(
            fold.materializer, to: log, of: database, verifiedIn: term, environment: environment,
            bounds: bounds, erased: erased)
    }

    private func follow(from offset: Offset) {
        follower = Task {
            await withDiscardingTaskGroup { group in
                group.addTask {
                    await self.fold.run()
                    if await self.materializer.hasLostHistory { self.whenLost(self) }
                }
                group.addTask {
                    while let folded = await self.folds.next() {
                        let isNew = folded.first.map { $0.position.offset > offset } ?? false
                        let new = isNew ? folded : folded.filter { $0.position.offset > offset }
                        LiveFeed.tell(await self.publish(new))
                    }
                }
            }
        }
    }

    /// Stops following; all sessions must have ended before.
    package func close() async {
        follower?.cancel()
        folds.close()
        feed.releaseAll()
        await admission.close()
        await fold.close()
    }

    /// Lets no session in any more; false while there are some.
    func retireIfIdle() -> Bool {
        guard sessions == 0 else { return false }
        isRetired = true
        return true
    }

    /// A number for a new session; nil when there are too many, or the hub is being closed.
    package func enter() async -> UInt64? {
        guard sessions < Limits.sessionsPerDatabase, !isRetired else { return nil }
        nextSession += 1
        let number = nextSession
        entered.insert(number)
        await admission.enter(number)
        return number
    }

    /// The state that an entered session shares with the others.
    package nonisolated func sharing(for session: UInt64) -> Sharing {
        queries.enter(session)
        return Sharing(
            follow: { [queries] query in queries.follow(query, by: session) },
            encode: { [frames] selection, make in frames.frame(selection, make) })
    }

    /// Tells waiting sessions the log's progress, as far as no event has told them. Returns the offset.
    @discardableResult
    package nonisolated func tellProgress() -> Offset { feed.tellProgress() }

    /// Tells one session, if it waits.
    nonisolated func tellProgress(to session: UInt64) { feed.tellProgress(to: session) }

    /// Says whose a session is that has entered, and how it is ended from here.
    func register(
        _ session: UInt64, _ rights: SessionRights, load: @escaping @Sendable () -> SessionReport.Load,
        end: @escaping @Sendable (SyncError) -> Void
    ) {
        running[session] = Running(
            rights: rights, sinceMilliseconds: environment.wallMilliseconds(), load: load, end: end)
    }

    /// Reports of the running sessions for operators, by number.
    func sessionReports() -> [SessionReport] {
        running.map { number, session in
            let identity = session.rights.identity
            return SessionReport(
                number: number, userID: identity.userID, peerKey: identity.peerKey,
                sinceMilliseconds: session.sinceMilliseconds,
                queries: queries.followed(by: number)?.count ?? 0, load: session.load(),
                offset: feed.offset(of: number))
        }.sorted { $0.number < $1.number }
    }

    /// The identity at the other end of a running session; nil where there is none of this number.
    func identity(of session: UInt64) -> Identity? { running[session]?.rights.identity }

    /// The peers that are there as JSON objects, by key: those of running sessions, and those that they tell
    /// of.
    func presence(at names: SessionNames) -> [Value] {
        presence.peers(
            running.map { number, session in
                let identity = session.rights.identity
                return PresenceRegistry.Running(
                    name: names.name(of: number), peerKey: identity.peerKey, userID: identity.userID,
                    metadata: identity.metadata)
            })
    }

    /// Ends one session, whose peer comes back when it likes; false where there is none of this number.
    func disconnect(_ session: UInt64) -> Bool {
        guard let found = running[session] else { return false }
        found.end(SyncError(.goingAway, "an operator has ended this session"))
        return true
    }

    /// How each running session is ended.
    func endings() -> [@Sendable (SyncError) -> Void] { running.values.map(\.end) }

    /// Keeps the received part of a peer's message for its next session; nil when it is complete. Held in
    /// memory, so only for this instance and run, and bounded: the oldest are dropped first.
    ///
    /// A session with a lost connection may notice the loss after a newer session of the same peer has
    /// continued: its call is ignored then.
    package func keep(_ partial: PartialMessage?, of peerKey: String?, by session: UInt64) {
        guard let peerKey, !peerKey.isEmpty else { return }
        let isPassed =
            partials.contains { $0.session > session && utf8Equal($0.key, peerKey) }
            || running.contains { number, other in
                number > session && other.rights.identity.peerKey.map { utf8Equal($0, peerKey) } ?? false
            }
        guard !isPassed else { return }
        partials.removeAll { utf8Equal($0.key, peerKey) }
        guard let partial else { return }
        partials.append((peerKey, session, partial))
        while partials.reduce(0, { $0 + $1.message.count }) > Limits.partialBytes { partials.removeFirst() }
    }

    /// The part kept for a peer.
    package func partial(of peerKey: String?) -> PartialMessage? {
        partials.first { utf8Equal($0.key, peerKey ?? "") }?.message
    }

    /// Applies a change of the grounds of sessions' rights: `judge` decides for each identity. Later
    /// appends are checked by the new grant; documents that may not be read any more are hidden.
    package func changeRights(_ judge: @Sendable (Identity) -> RightsChange) {
        for session in running.values {
            let (rights, end) = (session.rights, session.end)
            let identity = rights.identity
            switch judge(identity) {
            case .same: continue
            case .grant(let grant):
                let now = environment.wallMilliseconds() / 1_000
                rights.change(to: grant, atSeconds: Int64(clamping: now))
            case .ended(let reason): end(SyncError(.tokenRefused, reason))
            }
        }
    }

    /// The log lacks operations that are folded here, or the next ones: ends every session, with a reason.
    /// The peers greet a rebuilt hub, and give back the lost operations of a log that was put back.
    func endSessions() {
        let reason = SyncError(.goingAway, "the documents of this database are rebuilt from its log")
        for session in running.values { session.end(reason) }
    }

    /// Checks that the log still has what is folded here, as of now. Cheap; finds what a fold would find, and
    /// waits for none. (`Admission.verify` asks for more, and less often.)
    func verifyHistory() async throws {
        let position = await materializer.position
        if try await log.position(at: position.offset, in: database) != position {
            try await materializer.advance()
        }
    }

    /// Records that a session has ended.
    package func leave(_ session: UInt64) async {
        entered.remove(session)
        running[session] = nil
        presence.left(session)
        queries.leave(session)
        feed.leave(session)
        await admission.leave(session)
    }

    /// Operations after an offset, as soon as there are any; nil when the session is to end.
    nonisolated func operations(after offset: Offset, for session: UInt64) async -> LiveStream.Answer? {
        let answer = PendingAnswer<LiveStream.Answer?>()
        feed.follow(after: offset, for: session) { answer.give($0) }
        return await withTaskCancellationHandler {
            await answer.value()
        } onCancel: {
            feed.release(session)
        }
    }

    /// The same for one who waits without a task: `tell` is called once, here or from anywhere.
    nonisolated func follow(after offset: Offset, for session: UInt64, tell: @escaping LiveStream.Tell) {
        feed.follow(after: offset, for: session, tell: tell)
    }

    /// Returns who is to be told of it.
    private nonisolated func publish(_ folded: [FoldedOperation]) async -> [LiveStream.Wake] {
        let origins = await admission.takeOrigins(of: folded)
        var waking: Set<UInt64> = []
        let operations = zip(folded, origins).map { operation, origin in
            let found = queries.find(
                operation.changes.map { ($0.key, $0.before, $0.gone == nil ? $0.after : nil, $0.gone != nil) }
            )
            waking.formUnion(found.sessions)
            if let origin { waking.insert(origin) }
            var told = operation
            told.origin = origin
            for place in told.changes.indices where told.changes[place].gone == nil {
                told.changes[place].matches = found.matches[place]
            }
            return CommitTail.Commit(told, queries: found.numbers)
        }
        return feed.append(operations, waking: waking)
    }
}

/// A hub's materializer: a share of the process's, or its own.
private struct HubFold: Sendable {
    let materializer: Materializer
    /// Follows the log, or waits as long as its owner does.
    let run: @Sendable () async -> Void
    /// Ends that; later calls do nothing.
    let close: @Sendable () async -> Void

    init(share: Materializations.Share) {
        materializer = share.materializer
        run = { await share.waitForEnd() }
        close = { await share.close() }
    }

    init(owned: Materializer) {
        materializer = owned
        run = { await owned.run() }
        close = { await owned.close() }
    }
}

/// Opens once.
private final class Gate: Sendable {
    private let state = Mutex(false)
    var isOpen: Bool { state.withLock { $0 } }
    func open() { state.withLock { $0 = true } }
}
