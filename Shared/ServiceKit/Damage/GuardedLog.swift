import CRDT
import Logging
import OperationLog
import Postgres
import Synchronization
import Tracing

/// The operation log as services use it: any driver, with what a deployment adds.
///
/// - Damage that any call meets is remembered, logged once and counted. It is not repaired here: the log is
///   the only truth, so an operator restores it. Reads that do not need the damaged part go on.
/// - Appends are refused (`LOG-0310`) while a disk is nearly full, except those of the system database and
///   the audit: revocations must stay possible, and be told.
/// - While a change of one commit (an append, a lease, a chunk) waits for long, the status says so
///   (`LOG-0311`), and after longer the next ones are refused: a disk that stands still would else hold every
///   client until its own patience ends.
/// - Once all of the log was moved to another one, the status says so (`LOG-0313`).
/// - An empty log is not begun beside folders of an older one (`OldInstallation`).
public final class GuardedLog: OperationLog {
    private let inner: any OperationLog
    private let room: DiskRoom?
    private let old: OldInstallation?
    private let logger: Logger
    private let damage = Mutex<OperationLogError?>(nil)
    /// Set while the storage is full, as the last change has shown.
    private let fullness = Mutex<OperationLogError?>(nil)
    /// Set while the system database is closed for a move, as the last look has shown.
    private let move = Mutex<OperationLogError?>(nil)
    private let appends: AppendWatch
    private let appendTime = PrometheusRegistry.shared.makeTimer(
        label: "mimeo_log_append_duration_seconds", dimensions: [])
    private let group = PrometheusRegistry.shared.makeRecorder(
        label: "mimeo_log_group_operations", dimensions: [], aggregate: true)

    /// Wraps a log.
    /// - Parameters:
    ///   - room: refuses appends while it is nearly full; nil refuses none.
    ///   - old: folders beside which no new log is begun; nil allows it.
    ///   - now: the clock of appends that wait; a test's own.
    public init(
        _ inner: any OperationLog, room: DiskRoom? = nil, old: OldInstallation? = nil, logger: Logger,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        appends = AppendWatch(now: now)
        (self.inner, self.room, self.old, self.logger) = (inner, room, old, logger)
        Measured.begin("mimeo_log_damage_met_total", formerly: "log_damage_met_total")
        Measured.begin("mimeo_storage_copies_damaged_total", formerly: "storage_copies_damaged_total")
    }

    /// The inner log's, with the damage met so far.
    public var status: LogStatus {
        var status = inner.status
        status.damage = damage.withLock { $0 } ?? status.damage
        if status.refusal == nil, let moved = move.withLock({ $0 }) {
            status.refusal = moved
            status.refusesAtOnce = true
        }
        if status.refusal == nil, let full = fullness.withLock({ $0 }) {
            status.refusal = full
            // Each append tries again.
            status.refusesAtOnce = false
        }
        if status.refusal == nil, appends.age >= Limits.appendStall {
            status.refusal = stalled
            status.refusesAtOnce = appends.age >= Limits.appendRefusal
        }
        return status
    }

    /// The fence of the log's server, for others that connect to it; nil if it is at another address.
    public func fence(of url: String) -> ServerFence? { (inner as? PostgresOperationLog)?.fence(of: url) }

    /// Returns whether the log is kept in PostgreSQL at an address.
    public func isKept(at url: String) -> Bool {
        (inner as? PostgresOperationLog)?.isKept(at: url) ?? false
    }

    /// The age of the oldest change that waits for its commit; zero while none does.
    var appendAge: Duration { appends.age }

    /// The time of a commit while each takes `Limits.slowCommit` or more; nil while the storage is fast
    /// enough, and while too few commits tell.
    var slowPace: Duration? { appends.pace.flatMap { $0 >= Limits.slowCommit ? $0 : nil } }

    private var stalled: OperationLogError {
        OperationLogError(
            .stalled,
            "a change has waited for \(appends.age.components.seconds) s: the log's storage is slow "
                + "or stands still"
        )
    }

    /// See `OperationLog`.
    public var term: UInt64 { inner.term }

    /// See `OperationLog`.
    public func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome] {
        try await append(requests, to: database, with: nil)
    }

    /// See `OperationLog`.
    public func append(
        _ requests: [AppendRequest], to database: DatabaseID, with rider: (any AppendRider)?
    ) async throws -> [AppendOutcome] {
        try requireRoom(for: database)
        let begin = ContinuousClock.now
        let outcomes = try await withSpan("log append") { span in
            Self.describe(span, database, requests)
            return try await changing { try await inner.append(requests, to: database, with: rider) }
        }
        note(requests, since: begin)
        return outcomes
    }

    /// See `OperationLog`.
    public func appendBlocking(
        _ requests: [AppendRequest], to database: DatabaseID
    ) throws -> [AppendOutcome] {
        try requireRoom(for: database)
        let begin = ContinuousClock.now
        let outcomes = try withSpan("log append") { span in
            Self.describe(span, database, requests)
            let waiting = try beginChange()
            do {
                let outcomes = try inner.appendBlocking(requests, to: database)
                appends.end(waiting, isStored: true)
                return outcomes
            } catch {
                appends.end(waiting, isStored: false)
                noteFailure(error)
                throw error
            }
        }
        note(requests, since: begin)
        return outcomes
    }

    private func requireRoom(for database: DatabaseID) throws(OperationLogError) {
        guard let room, ![SystemDatabase.id, AuditLog.id].contains(database), room.isNearlyFull else {
            return
        }
        throw OperationLogError(
            .nearlyFull, "the disk is nearly full; nothing is stored until there is room",
            database: database)
    }

    private static func describe(_ span: any Span, _ database: DatabaseID, _ requests: [AppendRequest]) {
        span.attributes["mimeo.database"] = database.text
        span.attributes["mimeo.operations"] = Int64(requests.count)
    }

    private func note(_ requests: [AppendRequest], since begin: ContinuousClock.Instant) {
        appendTime.recordNanoseconds((ContinuousClock.now - begin).nanoseconds)
        group.record(Int64(requests.count))
    }

    /// See `OperationLog`.
    @discardableResult
    public func createDatabase(_ database: DatabaseID) async throws -> Bool {
        try await changing {
            if let old, try await inner.databases().isEmpty { throw old.refusal }
            return try await inner.createDatabase(database)
        }
    }

    /// Reads every entry and every snapshot of the log once, slowly: what nobody reads may be damaged too.
    /// Damage is remembered; the rest of its database is left out.
    func verify() async throws {
        for database in try await databases() {
            do {
                try await verify(database)
            } catch let error as OperationLogError where Self.isDamage(error) {
                continue
            }
        }
    }

    private func verify(_ database: DatabaseID) async throws {
        if let snapshot = try await snapshot(of: database) {
            for index in 0..<snapshot.chunks {
                _ = try await chunk(index, of: snapshot, in: database)
                try await Task.sleep(for: Limits.scrubPause)
            }
        }
        var offset = try await truncation(of: database).offset
        while let last = try await read(database, after: offset).last {
            offset = last.offset
            try await Task.sleep(for: Limits.scrubPause)
        }
    }

    /// Tries again while the storage was full at the last change: readiness must not wait for a client's.
    func tryAgain() async {
        guard fullness.withLock({ $0 != nil }) else { return }
        do {
            try await inner.requireRoom()
        } catch let error as OperationLogError where [.storageFull, .unreachable].contains(error.code) {
            return
        } catch {
            // The server has refused the try for another reason: the next append tells.
        }
        fullness.withLock { $0 = nil }
    }

    /// Looks whether the log was moved. A log that does not answer has not changed.
    func lookForMove() async {
        guard let log = inner as? any RestorableLog else { return }
        let refusal: OperationLogError?
        do {
            refusal = try await log.newPlace(of: SystemDatabase.id)?.refusal(of: SystemDatabase.id)
        } catch {
            return
        }
        let isNews = move.withLock { known in
            defer { known = refusal }
            return known != refusal
        }
        guard isNews else { return }
        if let refusal {
            logger.error("the log takes no writes any more: \(refusal.message)")
        } else {
            logger.notice("the log takes writes again: its move was taken back")
        }
    }

    /// Figures of the PostgreSQL server; nil for a log elsewhere, and while it does not answer.
    func serverFigures() async -> PostgresFigures? { try? await (inner as? PostgresOperationLog)?.figures() }

    private static func isDamage(_ error: OperationLogError) -> Bool {
        error.code == .corrupt || error.code == .corruptSnapshot
    }

    /// Watches how long a change of one commit waits, and refuses it while another has waited for too long.
    private func changing<Result>(_ body: () async throws -> Result) async throws -> Result {
        let waiting = try beginChange()
        do {
            let result = try await noting(body)
            appends.end(waiting, isStored: true)
            fullness.withLock { $0 = nil }
            return result
        } catch {
            appends.end(waiting, isStored: false)
            if let full = error as? OperationLogError, full.code == .storageFull {
                fullness.withLock { $0 = full }
            }
            throw error
        }
    }

    private func beginChange() throws(OperationLogError) -> UInt64 {
        guard appends.age < Limits.appendRefusal else {
            Measured.count("mimeo_log_errors_total", [("code", OperationLogErrorCode.stalled.rawValue)])
            throw stalled
        }
        return appends.begin()
    }

    private func noting<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch {
            noteFailure(error)
            throw error
        }
    }

    private func noteFailure(_ error: any Error) {
        guard let error = error as? OperationLogError else { return }
        Measured.count("mimeo_log_errors_total", [("code", error.code.rawValue)])
        if Self.isDamage(error) { note(error) }
    }

    private func note(_ error: OperationLogError) {
        let isFirst = damage.withLock { damage in
            defer { damage = damage ?? error }
            return damage == nil
        }
        Measured.count("mimeo_log_damage_met_total", formerly: "log_damage_met_total")
        guard isFirst else { return }
        logger.critical(
            "the operation log is damaged: restore it from a backup", metadata: ["error": "\(error)"])
    }
}

// MARK: Passed on

extension GuardedLog {
    /// See `OperationLog`. A full disk refuses none: it makes room.
    @discardableResult
    public func eraseDatabase(_ database: DatabaseID) async throws -> Offset? {
        try await noting { try await inner.eraseDatabase(database) }
    }

    /// See `OperationLog`.
    public func scrub() async throws { try await noting { try await inner.scrub() } }

    /// See `OperationLog`.
    public func requireStorage() async throws { try await noting { try await inner.requireStorage() } }

    /// See `OperationLog`.
    public func requireRoom() async throws { try await noting { try await inner.requireRoom() } }

    /// See `OperationLog`.
    public func databases() async throws -> [DatabaseID] { try await noting { try await inner.databases() } }

    /// See `OperationLog`.
    public func databaseExists(_ database: DatabaseID) async throws -> Bool {
        try await noting { try await inner.databaseExists(database) }
    }

    /// See `OperationLog`.
    public func frontier(
        of actors: [ActorID], in database: DatabaseID
    ) async throws -> [ActorID: FrontierEntry] {
        try await noting { try await inner.frontier(of: actors, in: database) }
    }

    /// See `OperationLog`.
    public func headNow(of database: DatabaseID) -> LogPosition? { inner.headNow(of: database) }

    /// See `OperationLog`.
    public func head(of database: DatabaseID) async throws -> LogPosition {
        try await noting { try await inner.head(of: database) }
    }

    /// See `OperationLog`.
    public func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition? {
        try await noting { try await inner.position(at: offset, in: database) }
    }

    /// See `OperationLog`.
    public func read(
        _ database: DatabaseID, after offset: Offset, limit: ReadLimit
    ) async throws -> [LogEntry] {
        try await noting { try await inner.read(database, after: offset, limit: limit) }
    }

    /// See `OperationLog`.
    public func changes(in database: DatabaseID) -> AsyncStream<LogChange> { inner.changes(in: database) }

    /// See `OperationLog`.
    public func truncation(of database: DatabaseID) async throws -> LogPosition {
        try await noting { try await inner.truncation(of: database) }
    }

    /// See `OperationLog`.
    public func truncate(
        _ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset
    ) async throws {
        try await noting {
            try await inner.truncate(database, through: offset, keepingHashesAfter: floor)
        }
    }

    /// See `OperationLog`.
    public func snapshot(of database: DatabaseID) async throws -> LogSnapshot? {
        try await noting { try await inner.snapshot(of: database) }
    }

    /// See `OperationLog`.
    public func beginSnapshot(
        of database: DatabaseID, at position: LogPosition
    ) async throws -> SnapshotDraft {
        try await changing { try await inner.beginSnapshot(of: database, at: position) }
    }

    /// See `OperationLog`.
    public func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try await changing { try await inner.add(chunk, to: draft, in: database) }
    }

    /// See `OperationLog`.
    public func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot {
        try await noting { try await inner.finish(draft, in: database) }
    }

    /// See `OperationLog`.
    public func chunk(
        _ index: Int, of snapshot: LogSnapshot, in database: DatabaseID
    ) async throws -> [UInt8] {
        try await noting { try await inner.chunk(index, of: snapshot, in: database) }
    }

    /// See `OperationLog`.
    public func lease(
        _ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID
    ) async throws -> ActorLease? {
        try await changing { try await inner.lease(purpose, of: slots, for: duration, in: database) }
    }

    /// See `OperationLog`.
    public func renew(
        _ lease: ActorLease, for duration: Duration, in database: DatabaseID
    ) async throws -> Bool {
        try await changing { try await inner.renew(lease, for: duration, in: database) }
    }

    /// See `OperationLog`.
    public func release(_ lease: ActorLease, retiring: Bool, in database: DatabaseID) async throws {
        try await changing { try await inner.release(lease, retiring: retiring, in: database) }
    }

    /// See `OperationLog`.
    public func retire(_ actors: [ActorID], in database: DatabaseID) async throws {
        try await changing { try await inner.retire(actors, in: database) }
    }

    /// See `OperationLog`.
    public func close() async { await inner.close() }
}
