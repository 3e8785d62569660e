import CRDT

// Snapshots, truncation and leases of the SQLite log: each call is one short transaction, or a row of them.

extension SQLiteOperationLog {
    /// One lookup.
    public func truncation(of database: DatabaseID) async throws -> LogPosition {
        try await reading { db in
            let head = try LogReader.head(db, database: database)
            return LogPosition(
                logID: head.logID, offset: head.truncated,
                hash: head.truncated == 0 ? ChainHash.start(head.logID) : head.truncatedHash)
        }
    }

    /// A transaction per `LogLimits.truncationStep` entries.
    public func truncate(
        _ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset
    ) async throws {
        while try await writing({ writer throws(LogWriter.Failure) in
            try writer.change { db in
                try LogTruncation.step(db, database, through: offset, keepingHashesAfter: floor)
            }
        }) { try Task.checkCancellation() }
        while try await writing({ writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.dropStep($0) }
        }) { try Task.checkCancellation() }
    }

    /// One lookup.
    public func snapshot(of database: DatabaseID) async throws -> LogSnapshot? {
        try await reading { try LogSnapshots.finished($0, of: LogReader.head($0, database: database)) }
    }

    /// One insert.
    public func beginSnapshot(
        of database: DatabaseID, at position: LogPosition
    ) async throws -> SnapshotDraft {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.begin($0, database, at: position) }
        }
    }

    /// One insert.
    public func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try OperationLogError.check(chunk: chunk, database)
        let hash = SnapshotSum.chunk(chunk)
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.add($0, chunk, hash: hash, to: draft, database) }
        }
    }

    /// One update; the previous snapshot's chunks are removed afterwards.
    public func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot {
        let snapshot = try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.finish($0, draft, database) }
        }
        while try await writing({ writer throws(LogWriter.Failure) in
            try writer.change { try LogSnapshots.dropStep($0) }
        }) { try Task.checkCancellation() }
        return snapshot
    }

    /// Two lookups.
    public func chunk(
        _ index: Int, of snapshot: LogSnapshot, in database: DatabaseID
    ) async throws -> [UInt8] {
        try await reading { try LogSnapshots.chunk($0, index, of: snapshot, database) }
    }

    /// One transaction.
    public func lease(
        _ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID
    ) async throws -> ActorLease? {
        try OperationLogError.check(purpose: purpose, database)
        return try await writing { writer throws(LogWriter.Failure) in
            let now = writer.now()
            return try writer.change {
                try LogLeases.take(
                    $0, database, purpose, slots: slots, now: now, until: now + duration.wholeMilliseconds,
                    drawing: writer.random)
            }
        }
    }

    /// One update.
    public func renew(_ lease: ActorLease, for duration: Duration, in database: DatabaseID) async throws
        -> Bool
    {
        try await writing { writer throws(LogWriter.Failure) in
            let now = writer.now()
            return try writer.change {
                try LogLeases.renew($0, lease, now: now, until: now + duration.wholeMilliseconds)
            }
        }
    }

    /// An update per actor.
    public func retire(_ actors: [ActorID], in database: DatabaseID) async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogLeases.retire($0, database, actors) }
        }
    }

    /// One update.
    public func release(_ lease: ActorLease, retiring: Bool, in database: DatabaseID) async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogLeases.release($0, lease, retiring: retiring) }
        }
    }
}

extension OperationLogError {
    /// - Throws: `LOG-0103` for an empty or oversized chunk.
    package static func check(chunk: [UInt8], _ database: DatabaseID) throws(OperationLogError) {
        guard !chunk.isEmpty, chunk.count <= LogLimits.chunkBytes else {
            throw OperationLogError(
                .invalidRequest, "a chunk has 1 to \(LogLimits.chunkBytes) bytes, not \(chunk.count)",
                database: database)
        }
    }

    /// - Throws: `LOG-0103` for an empty or oversized purpose.
    package static func check(purpose: String, _ database: DatabaseID) throws(OperationLogError) {
        guard (1...LogLimits.purposeBytes).contains(purpose.utf8.count) else {
            throw OperationLogError(
                .invalidRequest, "a lease's purpose has 1 to \(LogLimits.purposeBytes) bytes",
                database: database)
        }
    }
}

extension Duration {
    /// Whole milliseconds.
    package var wholeMilliseconds: Int64 {
        components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
