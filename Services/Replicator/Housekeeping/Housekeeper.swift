import CRDT
import Logging
import OperationLog
import Replica
import ServiceKit

/// Keeps one database's storage bounded: reaps old tombstones, writes the log's snapshot, truncates the log.
///
/// One process at a time does it: the holder of the lease. The log checks all its decisions again: a
/// reaping is appended under the lease, and under the condition that nobody has written the documents since
/// they were read; a truncation needs a finished snapshot. So a process that was suspended for an hour does
/// no harm.
package struct Housekeeper {
    let materializer: Materializer
    let log: any OperationLog
    let database: DatabaseID
    let options: HousekeepingOptions
    let logger: Logger
    /// Unix time: what tombstones' ages are measured by.
    let wallMilliseconds: @Sendable () -> UInt64
    /// Sizes and times of operations; nil where only their number counts.
    let measures: LogMeasures?
    /// The offset after which a backup needs the log; nil for none.
    let hold: Offset?

    /// The housekeeping of this database.
    package init(
        materializer: Materializer, log: any OperationLog, database: DatabaseID, options: HousekeepingOptions,
        logger: Logger, wallMilliseconds: @escaping @Sendable () -> UInt64
    ) {
        self.init(
            materializer: materializer, log: log, database: database, options: options, logger: logger,
            wallMilliseconds: wallMilliseconds, measures: nil, hold: nil)
    }

    /// The same with retention by size and age, and for a backup.
    init(
        materializer: Materializer, log: any OperationLog, database: DatabaseID, options: HousekeepingOptions,
        logger: Logger, wallMilliseconds: @escaping @Sendable () -> UInt64, measures: LogMeasures?,
        hold: Offset?
    ) {
        self.materializer = materializer
        self.log = log
        self.database = database
        self.options = options
        self.logger = logger
        self.wallMilliseconds = wallMilliseconds
        self.measures = measures
        self.hold = hold
    }

    /// The result of one turn.
    package struct Report: Equatable {
        package var reaped = 0
        package var snapshot: Offset?
        package var truncated: Offset?
        /// True if the lease was lost before a snapshot was written: another process has its turn.
        package var isCutShort = false
    }

    /// Takes the lease and does the due work; nil while another process has the lease.
    package func turn(reaps: Bool) async throws -> Report? {
        guard
            let lease = try await log.lease(
                Self.purpose, of: 1, for: options.lease, in: database)
        else { return nil }
        do {
            var report = Report()
            try await materializer.advance()
            if reaps, let timeToLive = options.tombstoneTimeToLive {
                report.reaped = try await reap(olderThan: timeToLive, at: wallMilliseconds(), lease)
            }
            try await shorten(&report, lease)
            try await log.release(lease, retiring: false, in: database)
            return report
        } catch {
            // Another process may take its turn at once; a lease that was lost is no matter.
            try? await log.release(lease, retiring: false, in: database)
            throw error
        }
    }

    static let purpose = "housekeeping"

    // MARK: Reaping

    private struct Find: Sendable {
        var place: ReadTransaction.TombstonePlace
        var tombstones: [(key: DocumentKey, vector: VersionVector)]?
        /// The offset of the state they were read from.
        var readAt: Offset
    }

    /// - Parameters:
    ///   - now: Unix time in milliseconds, which tombstones' ages are measured by.
    ///   - withRemains: true to reap also tombstones with seeds and remains of counters.
    func reap(
        olderThan timeToLive: Duration, at now: UInt64, _ lease: ActorLease, withRemains: Bool = false,
        where isWanted: @escaping @Sendable (DocumentKey) -> Bool = { _ in true }
    ) async throws -> Int {
        var reaped = 0
        var place = ReadTransaction.TombstonePlace()
        while try await log.renew(lease, for: options.lease, in: database) {
            let found = try await find(
                olderThan: timeToLive, at: now, from: place, withRemains: withRemains, where: isWanted)
            guard let tombstones = found.tombstones else { break }
            if !tombstones.isEmpty, try await !append(tombstones, readAt: found.readAt, lease) {
                // Somebody wrote one of them meanwhile: look again, from the same place.
                try await materializer.advance()
                continue
            }
            reaped += tombstones.count
            place = found.place
        }
        try await materializer.advance()
        return reaped
    }

    private func find(
        olderThan timeToLive: Duration, at now: UInt64, from place: ReadTransaction.TombstonePlace,
        withRemains: Bool, where isWanted: @escaping @Sendable (DocumentKey) -> Bool
    ) async throws -> Find {
        let replica = materializer.replica
        return try await materializer.executor.run {
            try replica.read { transaction in
                var next = place
                let tombstones = try transaction.outlivedTombstones(
                    from: &next, timeToLive: timeToLive, wallMilliseconds: now,
                    limit: Limits.reapedDocuments, withRemains: withRemains, where: isWanted)
                return Find(place: next, tombstones: tombstones, readAt: try transaction.foldedThrough())
            }
        }
    }

    /// Appends one reaping; false when one of the documents was written since.
    private func append(
        _ tombstones: [(key: DocumentKey, vector: VersionVector)], readAt: Offset, _ lease: ActorLease
    ) async throws -> Bool {
        let known = try await log.frontier(of: [lease.actor], in: database)[lease.actor]
        let changes = tombstones.map {
            Operation.Change(
                collection: $0.key.collection, id: $0.key.id, delta: ReapingChange.encode(at: $0.vector))
        }
        let operation = Operation(
            actor: lease.actor, sequence: (known?.sequence ?? 0).next,
            timestamp: max(wallMilliseconds() << 16, (known?.timestamp ?? 0) + 1),
            changes: changes.sorted { $0.collection < $1.collection })
        let condition = AppendCondition(
            readAt: readAt, reads: tombstones.map { .document($0.key.collection, $0.key.id) })
        let request = AppendRequest(operation, under: lease, condition: condition)
        // Rule 10 of reaping: who has written them writes them again as somebody else. Before the append, so
        // that what such a holder writes meanwhile breaches its condition, or is refused.
        let writers = Set(tombstones.flatMap { $0.vector.entries.map(\.actor) })
        try await log.retire(writers.sorted(), in: database)
        switch try await log.append([request], to: database).first {
        case .appended: return true
        case .conflict(.condition): return false
        case let outcome:
            throw OperationLogError(
                .busy, "another process does the housekeeping: \(String(describing: outcome))",
                database: database)
        }
    }

    // MARK: Snapshot and truncation

    /// Writes a snapshot; nil when the lease was lost.
    func write(_ lease: ActorLease) async throws -> LogSnapshot? {
        let snapshot = try await materializer.writeSnapshot {
            try await log.renew(lease, for: options.lease, in: database)
        }
        if let snapshot {
            logger.info(
                "the log has a new snapshot",
                metadata: [
                    "database": "\(database)", "offset": "\(snapshot.position.offset)",
                    "bytes": "\(snapshot.bytes)",
                ])
        }
        return snapshot
    }

    /// Reads a snapshot to its end; false for a damaged one, which this process's fold can replace.
    private func isReadable(_ snapshot: LogSnapshot, _ lease: ActorLease) async throws -> Bool {
        do {
            try await log.readSnapshot(snapshot, of: database) { _ in
                _ = try await log.renew(lease, for: options.lease, in: database)
            }
            return true
        } catch let error as OperationLogError where error.code == .corruptSnapshot {
            logger.error(
                "the log's snapshot is damaged and will be written again",
                metadata: ["database": "\(database)", "offset": "\(snapshot.position.offset)"])
            return false
        }
    }

    private func shorten(_ report: inout Report, _ lease: ActorLease) async throws {
        guard let due = options.snapshotOperations else { return }
        var snapshot = try await log.snapshot(of: database)
        let folded = await materializer.position.offset
        let position = snapshot?.position.offset ?? 0
        let measure = try await options.measure(of: database, in: log, measures)
        let isGrown = folded.rawValue >= due && folded.reduced(by: due) >= position
        if isGrown || folded > position && options.isTooLarge(measure) {
            guard let written = try await write(lease) else {
                report.isCutShort = true
                return
            }
            (snapshot, report.snapshot) = (written, written.position.offset)
        }
        guard let known = snapshot else { return }
        let kept = options.cut(before: known.position.offset, measure, at: wallMilliseconds(), hold: hold)
        guard try await log.truncation(of: database).offset < kept else { return }
        // Before anything is removed: what stands for it can be read. A snapshot of this turn was read back.
        if report.snapshot == nil, try await !isReadable(known, lease) {
            guard let written = try await write(lease) else {
                report.isCutShort = true
                return
            }
            (snapshot, report.snapshot) = (written, written.position.offset)
        }
        guard let end = snapshot?.position.offset else { return }
        let target = options.cut(before: end, measure, at: wallMilliseconds(), hold: hold)
        let replica = materializer.replica
        let floor = try await materializer.executor.run { try replica.reapFloor() }
        try await log.truncate(database, through: target, keepingHashesAfter: floor)
        report.truncated = target
    }
}
