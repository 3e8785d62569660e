import CRDT
import DQL
import GRDB
import Logging
import Machine
import Synchronization
import WriteAhead

/// The documents of one database in one SQLite file: tables, indexes, transactions, readers. A `PeerReplica`
/// and a `Materialization` stand on it; it knows nothing of uploads or of a log to fold.
///
/// Invariants:
/// - One process, one `DocumentStore` per directory (`DirectoryLock`).
/// - Documents, everything else in the tables and the store's state change together, in SQLite transactions.
/// - `shared` guards `state`, which changes only inside the pool's writer access; that serializes writers.
public final class DocumentStore: Sendable {
    /// The point at which a commit counts as done.
    enum Durability: Sendable {
        /// Synced to disk (`synchronous = FULL`) before the write returns, so nothing leaves the store before
        /// it is durable (rule 8).
        case synced
        /// NORMAL: the content can be rebuilt.
        case rebuildable
    }

    /// The store's directory.
    let directory: String
    private let durability: Durability
    /// The writing connection; `readers` has the reading ones.
    let pool: DatabasePool
    private let writeAhead: WriteAheadLog
    private let readers: Readers
    let environment: Environment
    let logger: Logger
    private let lock: DirectoryLock
    let indexCache = IndexCache()
    private let shared: Mutex<Shared>

    private struct Shared {
        var state: StoreState
        var isClosed = false
        /// Called for each damage that a read or write meets.
        var whenDamaged: (@Sendable (String) -> Void)?
    }

    /// Opens or creates the store in a directory. Throws `directoryLocked`, for a synced one after about a
    /// second and else at once, `directoryUnusable`, `unsupportedFormat`, `damaged` or, if an owner is named,
    /// `otherDatabase`.
    init(
        directory: String, owner: StoreOwner? = nil, durability: Durability, environment: Environment,
        logger: Logger
    ) throws {
        try DirectoryLock.create(directory)
        // A service whose folder is in use takes another one (`Materializer`): it would wait for nothing.
        let attempts = durability == .synced ? ReplicaLimits.lockAttempts : 1
        lock = try DirectoryLock(directory: directory, attempts: attempts) {
            environment.pause(ReplicaLimits.lockPause)
        }
        self.directory = directory
        self.durability = durability
        self.environment = environment
        self.logger = logger
        let path = "\(directory)/\(Self.fileName)"
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
            try Self.checkWriteAhead(path, durability)
            if durability == .synced { try Self.checkPresence(path, lock, logger) }
            try Schema.check(path: path)
            pool = try DatabasePool(path: path, configuration: configuration)
            let (state, writeAhead) = try pool.writeWithoutTransaction { database in
                let isSynced = durability == .synced
                // GRDB has just set NORMAL for its WAL; a store that acknowledges writes needs FULL.
                try database.execute(sql: "PRAGMA synchronous = \(isSynced ? "FULL" : "NORMAL")")
                if isSynced { try WriteAheadLog.checkpoint(database, isShared: false) }
                var opened: StoreState?
                try database.inTransaction(.immediate) {
                    try Schema.migrate(database)
                    let isNew = try StoreState.load(database) == nil
                    try owner?.claim(isNew: isNew, directory: directory, database)
                    let state = try Self.openState(
                        database, path: path, durability, environment, logger)
                    try Self.checkMark(state, path, durability)
                    opened = state
                    return .commit
                }
                guard let opened else { preconditionFailure("a committed opening left no state") }
                let mark = WriteAheadMark(path: path)
                mark?.note.0 = opened.head
                return (opened, try WriteAheadLog(of: database, mark: mark))
            }
            self.writeAhead = writeAhead
            if durability == .synced, !lock.remembersStore { lock.rememberStore() }
            shared = Mutex(Shared(state: state))
            try resumeBuilding()
        } catch {
            throw ReplicaError.opening(error, path: path)
        }
    }

    /// Closes the store and frees its directory; later calls throw `closed`. Waits for running accesses.
    func close() throws {
        let wasClosed = shared.withLock { shared in
            defer { shared.isClosed = true }
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
        WriteAheadMark.remove(of: "\(directory)/\(Self.fileName)")
    }

    /// Runs a closure on a consistent snapshot. Never waits for a writer.
    func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
        try checkOpen()
        do {
            return try readers.read(body)
        } catch {
            throw failed(error)
        }
    }

    /// The same if a connection is idle; nil otherwise.
    func readNow<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result? {
        try checkOpen()
        do {
            return try readers.readNow(body)
        } catch {
            throw failed(error)
        }
    }

    /// The store's state after the last commit.
    var state: StoreState { shared.withLock { $0.state } }

    /// See `Replica.whenDamaged`.
    func whenDamaged(_ body: @escaping @Sendable (String) -> Void) {
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

    /// Runs `body` in one immediate transaction on the writer and saves the changed state with it. `tell` is
    /// called with the result once that is durable, while the next writer waits.
    func committing<Result>(
        tell: (Result) -> Void = { _ in }, _ body: (Database, inout StoreState) throws -> Result
    ) throws -> Result {
        try checkOpen()
        do {
            return try writing { database in
                let before = shared.withLock { $0.state }
                var state = before
                let result = try database.inImmediateTransaction {
                    // A commit that is not synced gains nothing from room.
                    if durability == .synced { writeAhead.makeRoom(database) }
                    let result = try body(database, &state)
                    if state != before { try state.save(database) }
                    writeAhead.mark?.note.0 = state.head
                    return result
                }
                shared.withLock { $0.state = state }
                tell(result)
                return result
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

    /// Refuses a store whose write-ahead log has lost durable commits, or whose file was cut off.
    private static func checkWriteAhead(_ path: String, _ durability: Durability) throws(ReplicaError) {
        let remedy = Self.remedy(path, durability)
        if let loss = WriteAheadMark.loss(of: path, isSynced: durability == .synced) {
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
    private static func checkMark(
        _ state: StoreState, _ path: String, _ durability: Durability
    ) throws(ReplicaError) {
        guard let mark = WriteAheadMark.content(of: path), mark.isOpen,
            durability == .synced || mark.isOfThisStart, mark.note.0 > state.head
        else { return }
        throw ReplicaError(
            .damaged,
            "the store is at commit \(state.head) and was at \(mark.note.0)\(Self.remedy(path, durability))")
    }

    private static func remedy(_ path: String, _ durability: Durability) -> String {
        durability == .synced
            ? "; restore it from a backup, or remove \(path)-mark to open what is left" : ""
    }

    /// The stored state, or a new one; a file that was copied or restored gets a new actor (rule 9).
    private static func openState(
        _ database: Database, path: String, _ durability: Durability, _ environment: Environment,
        _ logger: Logger
    ) throws -> StoreState {
        guard let file = DirectoryLock.identity(of: path) else {
            throw ReplicaError(.directoryUnusable, "cannot read \(path)")
        }
        guard var state = try StoreState.load(database) else {
            let state = StoreState(actor: ActorID(environment.random()), file: file)
            try state.save(database)
            return state
        }
        if state.file.born == 0, state.file.isAt(file) {
            // The file system did not tell the file's time of birth when the store was made.
            state.opened(at: file)
            try state.save(database)
        }
        if state.file != file {
            state.opened(at: file)
            try state.renewActor(environment, database)
            try FeedIdentity.forget(database)
            logger.notice("the store was copied or restored: it uses a new actor from now on")
            try state.save(database)
        }
        // A store restored in place keeps its actor and continues from its restored state. If its clock
        // only counts (because the wall clock is earlier), it would draw the stamps of its other history
        // again, so it skips some. The skip is less than the millisecond by which a store may be ahead of
        // the timestamps it has seen.
        if durability == .synced { state.skipTimes(environment.random() % ReplicaLimits.skippedTimestamps) }
        return state
    }
}
