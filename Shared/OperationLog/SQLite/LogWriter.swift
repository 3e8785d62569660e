import CRDT
import Foundation
import GRDB
import Synchronization
import WriteAhead

/// Runs write transactions on the log's file and judges their failures.
///
/// The meaning of a failure is decided here, once:
/// - storage full, lock not granted: rolled back, nothing stored, try again later;
/// - a database that was moved (`LogMoves`): rolled back, and decided again with those that were not;
/// - an I/O error anywhere, or any other failure of the COMMIT itself: poisoned, because the pages may or may
///   not have reached the disk, and after a failed fsync the kernel may have dropped them;
/// - damage anywhere: poisoned, because nothing may be written onto it, and it stays damage (`LOG-0401`);
/// - any other refusal of a statement: rolled back, nothing stored.
///
/// A poisonous failure is recorded while the connection is still held, so that no waiting transaction
/// commits before the failed one has reported it. A poisoned writer stays so: `LogRecovery` replaces it.
struct LogWriter: Sendable {
    /// The failure after which nothing is written any more.
    private final class Health: Sendable {
        let failure = Mutex<OperationLogError?>(nil)
        /// The place that the last successful commit reached (`AppendBatch.reached`).
        let durable = Mutex<WriteAheadMark.Note>((0, 0, 0))
    }

    let pool: DatabasePool
    let writeAhead: WriteAheadLog
    /// Unix time in milliseconds: the clock of leases.
    let now: @Sendable () -> Int64
    /// Draws 64 random bits, which name leased actors.
    var random: @Sendable () -> Int64 = { .random(in: .min ... .max) }
    /// The heads of the databases, as far as this writer knows them.
    var heads = KnownHeads()
    /// The last touches, as far as this writer knows them.
    private let touches = TouchIndex()
    /// The actors' frontiers, as far as this writer knows them.
    let frontiers = FrontierIndex()
    private let health = Health()

    /// The place that the last successful commit reached; zeros if there was none.
    var durable: WriteAheadMark.Note { health.durable.withLock { $0 } }

    /// Takes over the place that an earlier writer reached.
    func take(durable note: WriteAheadMark.Note) { health.durable.withLock { $0 = note } }

    /// A failed transaction.
    struct Failure: Error {
        let error: OperationLogError
        let isPoisonous: Bool
    }

    private typealias Decided = (
        results: [Result<[AppendOutcome], OperationLogError>], batch: AppendBatch, WriteAheadIndex.State?
    )

    /// Commits one group.
    /// - Returns: the outcome, the new heads of the databases that grew, and an update of the indexes,
    ///   which must run before the next group begins and need not delay the answers.
    func commit(_ calls: [AppendCall]) -> (GroupOutcome, grown: [GrownHead], note: () -> Void) {
        var decided = decide(calls, asksForMoves: false)
        // A database that was moved has refused the whole group: nobody asks for moves without a reason.
        if case .failure(let failure) = decided, failure.error.code == .moved {
            decided = decide(calls, asksForMoves: true)
        }
        switch decided {
        case .success(let (results, batch, before)):
            if let reached = batch.reached { take(durable: reached) }
            let grown = batch.grownHeads
            if !grown.isEmpty { heads.publish(grown, after: before) }
            return (.committed(results), grown, { batch.note() })
        case .failure(let failure):
            return (failure.isPoisonous ? .poisoned(failure.error) : .refused(failure.error), [], {})
        }
    }

    private func decide(_ calls: [AppendCall], asksForMoves: Bool) -> Result<Decided, Failure> {
        Result { () throws(Failure) in
            try transaction { db in
                let before = heads.state
                let moves = asksForMoves ? try LogMoves.places(db) : [:]
                var batch = try AppendBatch(
                    db, touches, frontiers, moves: moves, nowMilliseconds: now())
                let results = try calls.map { try batch.apply($0) }
                try batch.store()
                if let reached = batch.reached { writeAhead.mark?.note = reached }
                return ((results, batch, before), batch.grownHeads.isEmpty ? .rollback : .commit)
            }
        }
    }

    /// Creates a database unless there is one of this id.
    func createDatabase(_ database: DatabaseID, id logID: LogID = .random()) throws(Failure) -> Bool {
        try transaction { db in
            try db.execute(
                sql: """
                    INSERT INTO databases (id, logID, head, hash, settled, settledHash)
                    VALUES (?1, ?2, 0, ?3, 0, ?3) ON CONFLICT DO NOTHING
                    """,
                arguments: [database.text, Data(logID.bytes), Int64(bitPattern: ChainHash.start(logID))])
            return (db.changesCount > 0, .commit)
        }
    }

    /// Runs a change in a transaction of its own. An `OperationLogError` from the body rolls it back and is
    /// passed on.
    func change<Result>(_ body: (Database) throws -> Result) throws(Failure) -> Result {
        try transaction { db in (try body(db), .commit) }
    }

    /// Copies the write-ahead log into the file, and truncates it.
    func checkpoint() throws(Failure) {
        do {
            _ = try pool.writeWithoutTransaction { db in try db.checkpoint(.truncate) }
        } catch let error as DatabaseError {
            throw Self.judge(error, hasReachedCommit: false)
        } catch {
            throw Self.judge(foreign: error)
        }
    }

    private func transaction<Result>(
        _ body: (Database) throws -> (Result, Database.TransactionCompletion)
    ) throws(Failure) -> Result {
        do {
            return try pool.writeWithoutTransaction { db in
                if let failure = health.failure.withLock({ $0 }) {
                    throw Failure(error: .poisoned(by: failure), isPoisonous: true)
                }
                var hasReachedCommit = false
                do {
                    try FastStatement("BEGIN IMMEDIATE", db).run()
                    // A group that was refused has left the place that it did not reach.
                    writeAhead.mark?.note = durable
                    writeAhead.makeRoom(db)
                    let (result, completion) = try body(db)
                    hasReachedCommit = true
                    try FastStatement(completion == .commit ? "COMMIT" : "ROLLBACK", db).run()
                    return result
                } catch {
                    // SQLite has rolled back by itself after some errors.
                    if db.isInsideTransaction { try? FastStatement("ROLLBACK", db).run() }
                    guard let error = error as? DatabaseError else { throw error }
                    let failure = Self.judge(error, hasReachedCommit: hasReachedCommit)
                    if failure.isPoisonous { health.failure.withLock { $0 = failure.error } }
                    throw failure
                }
            }
        } catch let failure as Failure {
            throw failure
        } catch let error as DatabaseError {
            throw Self.judge(error, hasReachedCommit: false)
        } catch let error as OperationLogError {
            throw Failure(error: error, isPoisonous: false)
        } catch {
            throw Self.judge(foreign: error)
        }
    }

    /// An error that is not the storage's: whether anything was written is not known.
    private static func judge(foreign error: any Error) -> Failure {
        Failure(
            error: OperationLogError(.storageFailed, "the log cannot be written: \(error)"), isPoisonous: true
        )
    }

    private static func judge(_ error: DatabaseError, hasReachedCommit: Bool) -> Failure {
        let reason = describe(error)
        // The write-ahead log's index is a file too, and can also find the disk full.
        let isFull =
            error.resultCode == .SQLITE_FULL || error.extendedResultCode == .SQLITE_IOERR_SHMSIZE
        switch error.resultCode {
        case _ where isFull:
            return Failure(error: OperationLogError(.storageFull, "the storage is full"), isPoisonous: false)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            let message = "another process holds the write lock of the log; try again"
            return Failure(error: OperationLogError(.busy, message), isPoisonous: false)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            return Failure(error: OperationLogError(.corrupt, reason), isPoisonous: true)
        case .SQLITE_CONSTRAINT where error.message == LogMoves.reason:
            return Failure(error: NewPlace(log: "", address: nil).refusal(), isPoisonous: false)
        case .SQLITE_IOERR:
            return Failure(error: OperationLogError(.commitFailed, reason), isPoisonous: true)
        default:
            let code: OperationLogErrorCode = hasReachedCommit ? .commitFailed : .storageFailed
            return Failure(error: OperationLogError(code, reason), isPoisonous: hasReachedCommit)
        }
    }
}
