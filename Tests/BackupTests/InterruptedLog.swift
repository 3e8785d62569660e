import CRDT
import LogFakes
import OperationLog
import Synchronization

/// A log whose user is killed before one of its changes: this one and all later ones fail. Several logs share
/// the count of changes.
final class InterruptedLog: PassingOnLog, RestorableLog, @unchecked Sendable {
    // Unchecked because its superclass is open; all properties are constant.

    /// The changes that are still made.
    final class Life: Sendable {
        private let rest: Mutex<Int>

        init(changes: Int) { rest = Mutex(changes) }

        /// True once a change was not made.
        var isOver: Bool { rest.withLock { $0 < 0 } }

        func spend() throws(Killed) {
            try rest.withLock { rest throws(Killed) in
                rest = max(-1, rest - 1)
                if rest < 0 { throw Killed() }
            }
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
        try life.spend()
        return try await inner.append(requests, to: database)
    }

    override func beginSnapshot(
        of database: DatabaseID, at position: LogPosition
    ) async throws -> SnapshotDraft {
        try life.spend()
        return try await inner.beginSnapshot(of: database, at: position)
    }

    override func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try life.spend()
        try await inner.add(chunk, to: draft, in: database)
    }

    override func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot {
        try life.spend()
        return try await inner.finish(draft, in: database)
    }

    func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID
    ) async throws -> DatabaseID {
        try life.spend()
        return try await inner.beginRestore(of: database, after: start, hash: hash, as: logID)
    }

    func register(_ actors: [ActorID: FrontierEntry], in draft: DatabaseID) async throws {
        try life.spend()
        try await inner.register(actors, in: draft)
    }

    func publish(_ drafts: [DatabaseID], replacing replaced: [DatabaseID]) async throws {
        try life.spend()
        try await inner.publish(drafts, replacing: replaced)
    }

    func discardDrafts() async throws {
        try life.spend()
        try await inner.discardDrafts()
    }

    func hasOtherUsers() async throws -> Bool { try await inner.hasOtherUsers() }

    func close(_ database: DatabaseID, movedTo place: NewPlace) async throws {
        try life.spend()
        try await inner.close(database, movedTo: place)
    }

    func reopen(_ database: DatabaseID) async throws {
        try life.spend()
        try await inner.reopen(database)
    }

    func newPlace(of database: DatabaseID) async throws -> NewPlace? {
        try await inner.newPlace(of: database)
    }
}
