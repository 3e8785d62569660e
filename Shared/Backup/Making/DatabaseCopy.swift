import CRDT
import OperationLog

/// Copies one database's part of the log into a backup's folder, page by page, while the log goes on.
struct DatabaseCopy {
    let log: any OperationLog
    let database: DatabaseID
    /// The backup's folder.
    let folder: String
    let progress: BackupProgress

    /// Copies everything up to a place that the log has reached.
    /// - Parameter parent: the same database's part in the backup that is continued.
    /// - Returns: the part, without a digest; nil when the database was erased meanwhile.
    /// - Throws: `BAK-0301`, `BAK-0101`, the log's errors.
    func part(through end: LogPosition, continuing parent: Manifest.Part?) async throws -> Manifest.Part? {
        for _ in 1...Limits.copyAttempts {
            do {
                return try await attempt(through: end, continuing: parent)
            } catch {
                try removeFiles()
                switch (error as? OperationLogError)?.code {
                case .unknownDatabase: return nil
                case .truncated, .noSnapshot: continue
                default: throw error
                }
            }
        }
        throw BackupError(
            .overtaken,
            "the log of database \(database) was truncated \(Limits.copyAttempts) times while it was copied; "
                + "raise --kept-operations")
    }

    private func attempt(
        through end: LogPosition, continuing parent: Manifest.Part?
    ) async throws -> Manifest.Part {
        guard let parent, try await continues(parent) else { return try await whole(through: end) }
        return try await operations(
            from: try parent.end(), time: parent.throughTime, base: .parent, through: end)
    }

    /// Returns whether the log still has everything after the parent's end.
    private func continues(_ parent: Manifest.Part) async throws -> Bool {
        let end = try parent.end()
        guard try await log.position(at: end.offset, in: database) == end else { return false }
        return try await log.truncation(of: database).offset <= end.offset
    }

    private var snapshotName: String { "snapshot-\(database.text).bin" }
    private var logName: String { "log-\(database.text).bin" }

    private func removeFiles() throws(BackupError) {
        for name in [snapshotName, logName] where Folder.exists("\(folder)/\(name)") {
            try Folder.remove("\(folder)/\(name)")
        }
    }

    /// From the log's first operation if it still has that, else from its snapshot.
    private func whole(through end: LogPosition) async throws -> Manifest.Part {
        guard try await log.truncation(of: database).offset > 0 else {
            guard let start = try await log.position(at: 0, in: database) else {
                throw OperationLogError(.corrupt, "the log has no position 0", database: database)
            }
            return try await operations(from: start, time: 0, base: .beginning, through: end)
        }
        guard let snapshot = try await log.snapshot(of: database) else {
            throw OperationLogError.noSnapshot(database, 0)
        }
        let (file, time) = try await copy(snapshot)
        // The snapshot may be younger than the end that was fixed.
        let through = snapshot.position.offset > end.offset ? snapshot.position : end
        var part = try await operations(
            from: snapshot.position, time: time, base: .snapshot, through: through)
        part.files.insert(file, at: 0)
        return part
    }

    /// Copies a snapshot with the keys of its actors.
    private func copy(_ snapshot: LogSnapshot) async throws -> (FileRecord, time: UInt64) {
        let writer = try FrameWriter(folder: folder, name: snapshotName)
        var time: UInt64 = 0
        try await log.readSnapshot(snapshot, of: database) { chunk in
            var actors: [ActorID] = []
            for record in try SnapshotChunk.records(in: chunk) {
                switch record {
                case .begin(let start): time = HybridClock.milliseconds(of: start.clock)
                case .actor(let progress): actors.append(progress.actor)
                default: break
                }
            }
            try await putKeys(of: actors, writer)
            try writer.put(.chunk(chunk))
        }
        return (try writer.finish(), time)
    }

    private func operations(
        from start: LogPosition, time: UInt64, base: Manifest.Base, through end: LogPosition
    ) async throws -> Manifest.Part {
        let writer = try FrameWriter(folder: folder, name: logName)
        var place = start
        var greatest = time
        var known: Set<ActorID> = []
        while place.offset < end.offset {
            let entries = try await log.read(database, after: place.offset)
                .filter { $0.offset <= end.offset }
            guard let last = entries.last else { break }
            try await putKeys(
                of: Set(entries.map(\.actor)).subtracting(known).sorted(), writer)
            for entry in entries {
                known.insert(entry.actor)
                greatest = max(greatest, HybridClock.milliseconds(of: entry.timestamp))
                try writer.put(.entry(entry.record, hash: entry.hash))
            }
            place = LogPosition(logID: start.logID, offset: last.offset, hash: last.hash)
            progress.tell(
                "copying \(database)", place.offset.rawValue - start.offset.rawValue,
                of: end.offset.rawValue - start.offset.rawValue)
            try Task.checkCancellation()
        }
        guard place == end else {
            throw OperationLogError(
                .corrupt, "the log was put back to an earlier state while it was copied; back up again",
                database: database, offset: end.offset)
        }
        return Manifest.Part(
            database: database.text, logID: hexadecimal(start.logID.bytes), base: base,
            from: start.offset.rawValue, fromHash: hexadecimal(start.hash), fromTime: time,
            through: end.offset.rawValue, hash: hexadecimal(end.hash), throughTime: greatest, digest: nil,
            documents: nil, files: [try writer.finish()])
    }

    /// Writes the keys that actors are registered to.
    private func putKeys(of actors: [ActorID], _ writer: FrameWriter) async throws {
        for start in stride(from: 0, to: actors.count, by: Limits.actorsAtOnce) {
            let some = Array(actors[start..<min(start + Limits.actorsAtOnce, actors.count)])
            let found = try await log.frontier(of: some, in: database)
            for actor in some {
                guard let key = found[actor]?.authorKey else {
                    throw OperationLogError(
                        .corrupt, "an actor of the log is not registered", database: database)
                }
                try writer.put(.key(actor, key))
            }
        }
    }
}
