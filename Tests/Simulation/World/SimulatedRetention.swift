import CRDT
import OperationLog

/// Snapshots, truncation and leases of the simulated log: the shipped file's, each call after a pause.
extension SimulatedLog {
    func truncation(of database: DatabaseID) async throws -> LogPosition {
        try await pause()
        return try file.truncation(of: database)
    }

    func truncate(
        _ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset
    ) async throws {
        try await change { try $0.truncate(database, through: offset, keepingHashesAfter: floor) }
        world.note(27) { "the log is truncated through \(offset)" }
        world.statistics.truncations += 1
    }

    func snapshot(of database: DatabaseID) async throws -> LogSnapshot? {
        try await pause()
        return try file.snapshot(of: database)
    }

    func beginSnapshot(of database: DatabaseID, at position: LogPosition) async throws -> SnapshotDraft {
        try await change { try $0.beginSnapshot(of: database, at: position) }
    }

    func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try await change { try $0.add(chunk, to: draft, in: database) }
    }

    func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot {
        try await change { try $0.finish(draft, in: database) }
    }

    func chunk(_ index: Int, of snapshot: LogSnapshot, in database: DatabaseID) async throws -> [UInt8] {
        try await pause()
        return try file.chunk(index, of: snapshot, in: database)
    }

    func lease(
        _ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID
    ) async throws -> ActorLease? {
        try await change { try $0.lease(purpose, of: slots, for: duration, in: database) }
    }

    func renew(_ lease: ActorLease, for duration: Duration, in database: DatabaseID) async throws -> Bool {
        try await change { try $0.renew(lease, for: duration) }
    }

    func release(_ lease: ActorLease, retiring: Bool, in database: DatabaseID) async throws {
        try await change { try $0.release(lease, retiring: retiring) }
    }

    func retire(_ actors: [ActorID], in database: DatabaseID) async throws {
        try await change { try $0.retire(actors, in: database) }
    }

    /// A change of the file. When the power goes in the midst of it, the machine starts again before its
    /// caller hears of it.
    private func change<Value>(_ body: (SQLiteLogFile) throws -> Value) async throws -> Value {
        try await pause()
        // Its caller's process has ended.
        try Task.checkCancellation()
        do {
            return try body(file)
        } catch {
            if disk.isOff { world.attempt { try world.logLostPower() } }
            throw error
        }
    }
}
