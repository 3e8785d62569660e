import CRDT
import DQL
import GRDB
import Logging
import Machine
import Synchronization
import WriteAhead

/// A database's documents and this store's own operations in one SQLite file.
///
/// The same type serves a peer (local writes become operations; data from the server is merged), and a
/// replicator or query-service (a *materialization*: the fold of the shared log, disposable).
///
/// Invariants:
/// - One process, one `Replica` per directory (`DirectoryLock`).
/// - Documents, operations, cursors and the store's state change together, in SQLite transactions.
/// - On a peer every commit is synced to disk (`synchronous = FULL`) before `write` returns, so nothing
///   leaves the store before it is durable (rule 8). A materialization uses NORMAL: it can be rebuilt.
/// - `state` is guarded by `shared`, and changed only inside the pool's writer access, which serializes
///   writers.
public final class Replica: Sendable {
    /// The purpose of a store; decides how it syncs to disk and who numbers its commits.
    public enum Role: Sendable {
        /// A small peer's own store.
        case peer
        /// A fold of the shared log.
        case materialization
    }

    /// The changes of a commit, reported to listeners after it is durable.
    public struct Commit: Sendable {
        /// The commit's number.
        public let number: UInt64
        /// The documents that changed, in order; evicted ones included.
        public let documents: [DocumentKey]
        /// The actor of the commit's operation; nil if it came from elsewhere or only evicted.
        public let actor: ActorID?
        /// Evicted documents that match a live subscription and must be fetched again.
        public let wanted: [DocumentKey]
        /// True if the commit is the store's own but withheld: nothing of it is uploaded now.
        public var isWithheld = false
        /// The commit's operation if it is small: equal to the result of `ownOperations`.
        public var operation: OwnOperation?
    }

    /// The result of a write, and its commit.
    public struct WriteResult<Value> {
        /// The closure's result.
        public let value: Value
        /// The number of the write's commit, or of the latest one when nothing changed.
        public let commit: UInt64
        /// The operation of the write, created at each access; nil when nothing changed or documents were
        /// only evicted.
        public var operation: Operation? { written?.operation }

        let written: WrittenOperation?
    }

    /// The store's directory.
    public let directory: String
    /// The purpose of the store.
    public let role: Role
    /// The writing connection; `readers` has the reading ones.
    let pool: DatabasePool
    private let writeAhead: WriteAheadLog
    private let readers: Readers
    let environment: Environment
    let logger: Logger
    private let lock: DirectoryLock
    private let indexCache = IndexCache()
    private let shared: Mutex<Shared>

    private struct Shared {
        var state: StoreState
        var isClosed = false
        var listeners: [Int: @Sendable (Commit) -> Void] = [:]
        var nextListener = 0
        /// Nil until the first `setLiveQueries`.
        var liveQueries: [SubscriptionQuery]?
        var withheld = WithheldCollections()
        /// Milliseconds by which the server's clock is ahead of this one (rule 21); 0 outside a session.
        var clockCorrection: Int64 = 0
        /// Called for each damage that a read or write meets.
        var whenDamaged: (@Sendable (String) -> Void)?
    }

    /// Opens or creates the store in a directory. Throws `directoryLocked`, for a peer after about a second
    /// and for a materialization at once, `directoryUnusable`, `newerFormat` or `damaged`.
    public init(directory: String, role: Role, environment: Environment, logger: Logger) throws {
        try DirectoryLock.create(directory)
        // A service whose folder is in use takes another one (`Materializer`): it would wait for nothing.
        let attempts = role == .peer ? ReplicaLimits.lockAttempts : 1
        lock = try DirectoryLock(directory: directory, attempts: attempts) {
            environment.pause(ReplicaLimits.lockPause)
        }
        self.directory = directory
        self.role = role
        self.environment = environment
        self.logger = logger
        let path = "\(directory)/\(Replica.fileName)"
        var configuration = Configuration()
        configuration.maximumReaderCount = ReplicaLimits.readers
        configuration.busyMode = .timeout(ReplicaLimits.busyTimeoutSeconds)
        configuration.label = "replica"
        var reading = configuration
        reading.readonly = true
        PageSums.add(to: &configuration)
        PageSums.add(to: &reading)
        reading.prepareDatabase { database in
            // Reads pages from the kernel's cache: copying each would be a third of a scan.
            try database.execute(sql: "PRAGMA mmap_size = \(ReplicaLimits.mappedBytes)")
        }
        readers = Readers(path: path, configuration: reading, cache: indexCache)
        do {
            try Replica.checkWriteAhead(path, role)
            if role == .peer { try Replica.checkPresence(path, lock, logger) }
            try Schema.check(path: path)
            pool = try DatabasePool(path: path, configuration: configuration)
            let (state, kept, writeAhead) = try pool.writeWithoutTransaction { database in
                // GRDB has just set NORMAL for its WAL; a store that acknowledges writes needs FULL.
                try database.execute(sql: "PRAGMA synchronous = \(role == .peer ? "FULL" : "NORMAL")")
                if role == .peer { try WriteAheadLog.checkpoint(database, isShared: false) }
                var opened: StoreState?
                try database.inTransaction(.immediate) {
                    try Schema.migrate(database)
                    let state = try Replica.openState(database, path: path, role, environment, logger)
                    try Replica.checkMark(state, path, role)
                    opened = state
                    return .commit
                }
                guard let opened else { preconditionFailure("a committed opening left no state") }
                let mark = WriteAheadMark(path: path)
                mark?.note.0 = opened.head
                let writeAhead = try WriteAheadLog(of: database, mark: mark)
                return (opened, try Withheld.collections(database), writeAhead)
            }
            self.writeAhead = writeAhead
            if role == .peer, !lock.remembersStore { lock.rememberStore() }
            shared = Mutex(Shared(state: state, withheld: WithheldCollections(kept: kept)))
            try resumeBuilding()
        } catch {
            throw ReplicaError.opening(error, path: path)
        }
    }

    /// Closes the store and frees its directory; later calls throw `closed`. Waits for running accesses.
    public func close() throws {
        let wasClosed = shared.withLock { shared in
            defer { shared.isClosed = true }
            shared.listeners = [:]
            return shared.isClosed
        }
        guard !wasClosed else { return }
        defer { lock.release() }
        // GRDB closes the writer before the readers, but only a writer that closes last removes the
        // write-ahead log.
        readers.close()
        pool.releaseMemory()
        try pool.close()
        // A closed store is one file again, which may be copied and put back.
        WriteAheadMark.remove(of: "\(directory)/\(Replica.fileName)")
    }

    /// Runs a closure on a consistent snapshot. Never waits for a writer.
    public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
        try checkOpen()
        do {
            return try readers.read(body)
        } catch {
            throw failed(error)
        }
    }

    /// Runs a local write transaction; a thrown error rolls it back. The closure may run twice (see
    /// `WriteTransaction`), so it must have no effect outside the transaction. Returns after the commit is
    /// durable.
    public func write<Value>(
        limits: DocumentLimits = DocumentLimits(), _ body: (WriteTransaction) throws -> Value
    ) throws -> WriteResult<Value> {
        precondition(role == .peer, "a materialization changes by folding its log only")
        return try changing { database, state in
            for _ in 0..<2 {
                if let done = try self.attempt(database, &state, limits, body) { return done }
                try state.renewActor(self.environment, database)
            }
            preconditionFailure("a new actor cannot have written an evicted document")
        }
    }

    /// The number of the last commit; in a materialization the offset `foldedThrough`.
    public var head: UInt64 { shared.withLock { $0.state.head } }
    /// The offset up to which this materialization has folded its log; 0 before the first fold.
    public var foldedThrough: Offset {
        precondition(role == .materialization, "a peer counts commits and has no offset")
        return shared.withLock { $0.state.foldedThrough }
    }
    /// The actor of the next local write.
    public var actor: ActorID { shared.withLock { $0.state.actor } }

    /// Calls a closure after every commit, in the order of commits, while the next writer waits: it must be
    /// quick and must not call the store. Returns a token for `removeListener`.
    public func addListener(_ listener: @escaping @Sendable (Commit) -> Void) -> Int {
        shared.withLock { shared in
            shared.nextListener += 1
            shared.listeners[shared.nextListener] = listener
            return shared.nextListener
        }
    }

    /// Removes a listener. A running call may still end after this returns.
    public func removeListener(_ listener: Int) {
        _ = shared.withLock { $0.listeners.removeValue(forKey: listener) }
    }

    /// Tells the store the live subscriptions: a document that is evicted while one of them matches it is
    /// requested again at once (rule 10).
    public func setLiveQueries(_ queries: [SubscriptionQuery]) {
        shared.withLock { $0.liveQueries = queries }
    }

    /// Makes local writes bear the server's time instead of this computer's. `milliseconds` is the server
    /// clock's lead, 0 to end the correction (rule 21).
    public func correctClock(byMilliseconds milliseconds: Int64) {
        shared.withLock { $0.clockCorrection = milliseconds }
    }

    /// An environment whose wall clock is corrected to the server's, if that is known.
    func corrected(_ environment: Environment) -> Environment {
        let correction = shared.withLock { $0.clockCorrection }
        guard correction != 0 else { return environment }
        return Environment(
            wallMilliseconds: {
                let (sum, overflows) = Int64(clamping: environment.wallMilliseconds())
                    .addingReportingOverflow(correction)
                return overflows ? environment.wallMilliseconds() : UInt64(max(0, sum))
            }, random: environment.random, pause: environment.pause)
    }

    /// Returns whether a subscription's cursor is still valid: not after the subscription was cancelled,
    /// because an eviction may have dropped documents that the cursor covers.
    func keepsCursor(of key: [UInt8]) -> Bool {
        shared.withLock { $0.liveQueries?.contains { $0.canonicalKey == key } ?? true }
    }

    /// The live subscriptions.
    var liveQueries: [SubscriptionQuery] { shared.withLock { $0.liveQueries ?? [] } }

    /// The keys of the live subscriptions.
    var liveKeys: [[UInt8]] { liveQueries.map(\.canonicalKey) }

    /// The collections withheld from the server.
    var withheld: WithheldCollections { shared.withLock { $0.withheld } }

    func updateWithheld(_ change: (inout WithheldCollections) -> Void) {
        shared.withLock { change(&$0.withheld) }
    }

    /// The names of the collections in live subscriptions.
    var subscribedCollections: [CollectionName] {
        shared.withLock { shared in
            var names: [CollectionName] = []
            for query in shared.liveQueries ?? [] {
                if !names.contains(query.collection) { names.append(query.collection) }
            }
            return names
        }
    }

    /// Returns whether a live subscription includes a collection.
    func isSubscribed(_ collection: CollectionName) -> Bool {
        shared.withLock { $0.liveQueries?.contains { $0.collection == collection } ?? false }
    }

    /// Calls a closure whenever a read or a write, of whatever kind, finds the store damaged. It may be
    /// called on any thread and often, and must not call the store.
    public func whenDamaged(_ body: @escaping @Sendable (String) -> Void) {
        shared.withLock { $0.whenDamaged = body }
    }

    /// Every error of the store passes through here on its way out: translated, and reported if it is damage.
    func failed(_ error: any Error) -> any Error {
        let translated = ReplicaError.translated(error)
        if ReplicaError.isDamage(translated) { shared.withLock { $0.whenDamaged }?("\(translated)") }
        return translated
    }

    func checkOpen() throws(ReplicaError) {
        if shared.withLock({ $0.isClosed }) { throw ReplicaError(.closed, "the store is closed") }
    }

    /// Runs `body` in one immediate transaction on the writer, saves the changed state with it, and tells
    /// the listeners of the returned commit.
    func committing<Result>(
        _ body: (Database, inout StoreState) throws -> (result: Result, commit: Commit?)
    ) throws -> Result {
        try checkOpen()
        do {
            return try writing { database in
                let before = shared.withLock { $0.state }
                var state = before
                let outcome = try database.inImmediateTransaction {
                    // A commit that is not synced gains nothing from room.
                    if role == .peer { writeAhead.makeRoom(database) }
                    let outcome = try body(database, &state)
                    if state != before { try state.save(database) }
                    writeAhead.mark?.note.0 = state.head
                    return outcome
                }
                let listeners = shared.withLock { shared in
                    shared.state = state
                    return Array(shared.listeners.values)
                }
                if let commit = outcome.commit { for listener in listeners { listener(commit) } }
                return outcome.result
            }
        } catch {
            throw failed(error)
        }
    }

    /// Runs a closure on the writing connection. Every write goes through here, because `readers` must know
    /// of it.
    func writing<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try readers.writing { try pool.writeWithoutTransaction(body) }
    }

    /// A snapshot on a connection of its own, which may last.
    func makeSnapshot() throws -> DatabaseSnapshot { try pool.makeSnapshot() }

    private func changing<Value>(
        _ body: (Database, inout StoreState) throws -> (WriteResult<Value>, Commit?)
    ) throws -> WriteResult<Value> {
        try committing { database, state in
            let (result, commit) = try body(database, &state)
            return (result, commit)
        }
    }

    /// One run of a local transaction inside a savepoint; nil when it must run again under a new actor.
    private func attempt<Value>(
        _ database: Database, _ state: inout StoreState, _ limits: DocumentLimits,
        _ body: (WriteTransaction) throws -> Value
    ) throws -> (WriteResult<Value>, Commit?)? {
        let (queries, withheld) = shared.withLock { ($0.liveQueries ?? [], $0.withheld) }
        let transaction = WriteTransaction(
            database, state, corrected(environment), liveQueries: queries, limits: limits,
            indexes: indexCache,
            withheld: withheld)
        var outcome: (value: Value, made: WriteTransaction.Made?)?
        do {
            try database.inPart {
                let value = try body(transaction)
                guard !transaction.needsNewActor else { throw ActorMustChange() }
                outcome = (value, try transaction.made())
                return true
            }
        } catch  where transaction.needsNewActor {
            return nil
        }
        guard let outcome else { preconditionFailure("a committed savepoint left no result") }
        guard let made = outcome.made else {
            let commit =
                transaction.evicted.isEmpty
                ? nil
                : Commit(
                    number: state.head, documents: transaction.evicted, actor: nil, wanted: transaction.wanted
                )
            return (WriteResult(value: outcome.value, commit: state.head, written: nil), commit)
        }
        state = transaction.state
        state.head += 1
        var operation: OwnOperation?
        if let written = made.own {
            state.sequence = written.sequence
            let bytes = try OwnOperations.insert(written, position: state.head, database)
            if let bytes, bytes.count <= ReplicaLimits.toldOperationBytes {
                operation = OwnOperation(commit: state.head, sequence: written.sequence, bytes: bytes)
            }
        }
        for (collection, operation) in made.withheld {
            try Withheld.insert(operation, collection, position: state.head, database)
            updateWithheld { $0.kept.insert(collection) }
        }
        let commit = Commit(
            number: state.head, documents: made.documents + transaction.evicted,
            actor: made.own?.actor, wanted: transaction.wanted, isWithheld: made.own == nil,
            operation: operation)
        return (WriteResult(value: outcome.value, commit: state.head, written: made.own), commit)
    }

    /// Refuses a store whose write-ahead log has lost commits that were durable, or whose file was cut off.
    private static func checkWriteAhead(_ path: String, _ role: Role) throws(ReplicaError) {
        let remedy = Self.remedy(path, role)
        if let loss = WriteAheadMark.loss(of: path, isSynced: role == .peer) {
            throw ReplicaError(.damaged, "\(loss)\(remedy)")
        }
        WriteAheadMark.adopt(path)
        guard WriteAheadMark.content(of: path) != nil, DirectoryLock.isEmpty(path) else { return }
        throw ReplicaError(.damaged, "the store file is empty or gone, and was not before\(remedy)")
    }

    /// Refuses an empty file where a store was. One that is gone is told: somebody may have removed it to
    /// begin anew.
    private static func checkPresence(
        _ path: String, _ lock: DirectoryLock, _ logger: Logger
    ) throws(ReplicaError) {
        guard lock.remembersStore, DirectoryLock.isEmpty(path) else { return }
        guard DirectoryLock.identity(of: path) != nil else {
            logger.warning("the store that was here is gone; a new one begins", metadata: ["file": "\(path)"])
            return
        }
        throw ReplicaError(
            .damaged,
            "the store file is empty, and was not before; restore it from a backup, or remove \(path) to "
                + "begin a new one")
    }

    /// A store that is behind its mark has lost a write-ahead log that nothing had copied into the file.
    private static func checkMark(_ state: StoreState, _ path: String, _ role: Role) throws(ReplicaError) {
        guard let mark = WriteAheadMark.content(of: path), mark.isOpen,
            role == .peer || mark.isOfThisStart, mark.note.0 > state.head
        else { return }
        throw ReplicaError(
            .damaged,
            "the store is at commit \(state.head) and was at \(mark.note.0)\(Self.remedy(path, role))")
    }

    private static func remedy(_ path: String, _ role: Role) -> String {
        role == .peer ? "; restore it from a backup, or remove \(path)-mark to open what is left" : ""
    }

    /// The stored state, or a new one; a file that was copied or restored gets a new actor (rule 9).
    private static func openState(
        _ database: Database, path: String, _ role: Role, _ environment: Environment, _ logger: Logger
    ) throws -> StoreState {
        guard let file = DirectoryLock.identity(of: path) else {
            throw ReplicaError(.directoryUnusable, "cannot read \(path)")
        }
        guard var state = try StoreState.load(database) else {
            let state = StoreState(
                actor: ActorID(environment.random()), sequence: 0, clock: HybridClock(), head: 0, file: file,
                logID: nil,
                logHash: 0)
            try state.save(database)
            return state
        }
        if state.file.born == 0, state.file.isAt(file) {
            // A store of the first format, which did not record its file's time of birth.
            state.file = file
            try state.save(database)
        }
        if state.file != file {
            state.file = file
            try state.renewActor(environment, database)
            logger.notice("the store was copied or restored: it uses a new actor from now on")
            try state.save(database)
        }
        // A store restored in place keeps its actor and continues from its restored state. If its clock
        // only counts (because the wall clock is earlier), it would draw the stamps of its other history
        // again, so it skips some. The skip is less than the millisecond by which a store may be ahead of
        // the timestamps it has seen.
        if role == .peer { state.clock.skip(environment.random() % ReplicaLimits.skippedTimestamps) }
        return state
    }
}
