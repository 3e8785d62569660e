import CRDT
import LogFakes
import OperationLog
import Synchronization

/// A log whose user is killed before one of its changes: this one and all later ones fail. Or it stands still
/// there while others work, has lost its reservation, and goes on. Several logs share the count of changes.
final class InterruptedLog: PassingOnLog, RestorableLog, @unchecked Sendable {
    // Unchecked because its superclass is open; all properties are constant.

    /// The changes that are still made.
    final class Life: Sendable {
        private let rest: Mutex<Int>
        /// The work of others while this one stands still; nil if it is killed.
        private let meanwhile: (@Sendable () async -> Void)?

        init(changes: Int, meanwhile: (@Sendable () async -> Void)? = nil) {
            rest = Mutex(changes)
            self.meanwhile = meanwhile
        }

        /// True once the last of the changes was made, and another one begun.
        var isOver: Bool { rest.withLock { $0 < 0 } }

        /// True if others can reserve what this one has.
        var isForgotten: Bool { meanwhile != nil }

        func spend() async throws {
            let left = rest.withLock { rest in
                rest -= 1
                return rest
            }
            guard left < 0 else { return }
            guard let meanwhile else { throw Killed() }
            if left == -1 { await meanwhile() }
        }
    }

    struct Killed: Error {}

    private let inner: any RestorableLog
    private let life: Life

    init(_ inner: any RestorableLog, _ life: Life) {
        (self.inner, self.life) = (inner, life)
        super.init(inner)
    }

    override func append(
        _ requests: [AppendRequest], to database: DatabaseID
    ) async throws -> [AppendOutcome] {
        try await life.spend()
        return try await inner.append(requests, to: database)
    }

    override func beginSnapshot(
        of database: DatabaseID, at position: LogPosition
    ) async throws -> SnapshotDraft {
        try await life.spend()
        return try await inner.beginSnapshot(of: database, at: position)
    }

    override func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try await life.spend()
        try await inner.add(chunk, to: draft, in: database)
    }

    override func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot {
        try await life.spend()
        return try await inner.finish(draft, in: database)
    }

    func reserveDrafts() async throws { if !life.isForgotten { try await inner.reserveDrafts() } }

    func releaseDrafts() async { if !life.isForgotten { await inner.releaseDrafts() } }

    func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID?
    ) async throws -> DatabaseID {
        try await life.spend()
        return try await inner.beginRestore(of: database, after: start, hash: hash, as: logID)
    }

    func register(_ actors: [ActorID: FrontierEntry], in draft: DatabaseID) async throws {
        try await life.spend()
        try await inner.register(actors, in: draft)
    }

    func number(of database: DatabaseID) async throws -> Int64? { try await inner.number(of: database) }

    func drafts() async throws -> [DatabaseID] { try await inner.drafts() }

    func rename(_ renamings: [Renaming]) async throws {
        try await life.spend()
        try await inner.rename(renamings)
    }

    func hasOtherUsers() async throws -> Bool { try await inner.hasOtherUsers() }

    func close(_ database: DatabaseID, movedTo place: NewPlace, from former: NewPlace?) async throws {
        try await life.spend()
        try await inner.close(database, movedTo: place, from: former)
    }

    func reopen(_ database: DatabaseID, from former: NewPlace) async throws {
        try await life.spend()
        try await inner.reopen(database, from: former)
    }

    func newPlace(of database: DatabaseID) async throws -> NewPlace? {
        try await inner.newPlace(of: database)
    }
}
