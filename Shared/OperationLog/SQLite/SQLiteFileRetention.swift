import CRDT

// Snapshots, truncation and leases of a log's file, synchronously: like `SQLiteOperationLog`, without its
// threads.

extension SQLiteLogFile {
    /// As `OperationLog.truncation`.
    package func truncation(of database: DatabaseID) throws -> LogPosition {
        try read { db in
            let head = try LogReader.head(db, database: database)
            return LogPosition(
                logID: head.logID, offset: head.truncated,
                hash: head.truncated == 0 ? ChainHash.start(head.logID) : head.truncatedHash)
        }
    }

    /// As `OperationLog.truncate`.
    package func truncate(
        _ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset
    ) throws {
        while try changing({ writer throws(LogWriter.Failure) in
            try writer.change { db in
                try LogTruncation.step(db, database, through: offset, keepingHashesAfter: floor)
            }
        }) {}
        try dropDrafts()
    }

    /// As `OperationLog.snapshot`.
    package func snapshot(of database: DatabaseID) throws -> LogSnapshot? {
        try read { try LogSnapshots.finished($0, of: LogReader.head($0, database: database)) }
    }

    /// As `OperationLog.beginSnapshot`.
    package func beginSnapshot(of database: DatabaseID, at position: LogPosition) throws -> SnapshotDraft {
        try changing { writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.begin($0, database, at: position) }
        }
    }

    /// As `OperationLog.add`.
    package func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) throws {
        try OperationLogError.check(chunk: chunk, database)
        let hash = SnapshotSum.chunk(chunk)
        try changing { writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.add($0, chunk, hash: hash, to: draft, database) }
        }
    }

    /// As `OperationLog.finish`.
    package func finish(_ draft: SnapshotDraft, in database: DatabaseID) throws -> LogSnapshot {
        let snapshot = try changing { writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.finish($0, draft, database) }
        }
        try dropDrafts()
        return snapshot
    }

    /// As `OperationLog.chunk`.
    package func chunk(_ index: Int, of snapshot: LogSnapshot, in database: DatabaseID) throws -> [UInt8] {
        try read { try LogSnapshots.chunk($0, index, of: snapshot, database) }
    }

    /// As `OperationLog.lease`.
    package func lease(
        _ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID
    ) throws -> ActorLease? {
        try OperationLogError.check(purpose: purpose, database)
        return try changing { writer throws(LogWriter.Failure) in
            let now = writer.now()
            return try writer.change {
                try LogLeases.take(
                    $0, database, purpose, slots: slots, now: now, until: now + duration.wholeMilliseconds,
                    drawing: writer.random)
            }
        }
    }

    /// As `OperationLog.renew`.
    package func renew(_ lease: ActorLease, for duration: Duration) throws -> Bool {
        try changing { writer throws(LogWriter.Failure) in
            let now = writer.now()
            return try writer.change {
                try LogLeases.renew($0, lease, now: now, until: now + duration.wholeMilliseconds)
            }
        }
    }

    /// As `OperationLog.release`.
    package func release(_ lease: ActorLease, retiring: Bool) throws {
        try changing { writer throws(LogWriter.Failure) in
            try writer.change { try LogLeases.release($0, lease, retiring: retiring) }
        }
    }

    /// As `OperationLog.retire`.
    package func retire(_ actors: [ActorID], in database: DatabaseID) throws {
        try changing { writer throws(LogWriter.Failure) in
            try writer.change { try LogLeases.retire($0, database, actors) }
        }
    }

    private func dropDrafts() throws {
        while try changing({ writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.dropStep($0) }
        }) {}
    }

    private func changing<Value>(_ body: (LogWriter) throws(LogWriter.Failure) -> Value) throws -> Value {
        try Result { () throws(LogWriter.Failure) in try body(writer) }.mapError(\.error).get()
    }
}
