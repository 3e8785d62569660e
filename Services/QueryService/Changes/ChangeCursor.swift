import CRDT
import Exchange
import OperationLog
import Replica
import ServiceKit

/// Reads a database's operations one after the other, with the states of the documents around each: from
/// memory near the log's head, else from a fold of its own.
///
/// Used by one task. It holds a fold only while it is behind what is in memory; `end` gives it back.
final class ChangeCursor {
    private let database: DatabaseID
    private let recent: RecentChanges
    private let past: Past
    private let turns: StreamTurns
    private let follower: RecentChanges.Follower
    private var fold: PastFold?
    private var authors: [ActorID: String] = [:]
    /// The offset of the last operation that `next` has returned.
    private(set) var position: Offset

    /// - Parameter turns: those in which a fold of its own is moved.
    init(
        _ database: DatabaseID, after offset: Offset, _ recent: RecentChanges, _ past: Past,
        _ turns: StreamTurns
    ) {
        self.database = database
        self.recent = recent
        self.past = past
        self.turns = turns
        position = offset
        follower = recent.follow()
    }

    /// True once the fold that it follows has ended.
    var isOver: Bool { follower.isOver }

    /// The next operations, none after `offset`; none if there are no further ones yet.
    /// - Throws: `QUERY-0503` where the log no longer has them.
    func next(through offset: Offset) async throws -> [FoldedOperation] {
        guard position < offset else { return [] }
        switch recent.read(after: position) {
        case .operations(let found) where !found.isEmpty:
            await end()
            return take(Array(found.prefix { $0.position.offset <= offset }))
        case .operations:
            // Operations in the log that are not folded here yet arrive by themselves.
            return []
        case .gone:
            return try await past.translating(database) { try await readPast(through: offset) }
        }
    }

    private func readPast(through offset: Offset) async throws -> [FoldedOperation] {
        if fold == nil {
            fold = try await turns.evaluating { try await past.folds.borrow(database, at: position, $0) }
        }
        guard let fold else { return [] }
        do {
            return take(try await turns.evaluating { try await fold.next(through: offset, for: $0) })
        } catch {
            self.fold = nil
            await past.folds.drop(fold)
            throw error
        }
    }

    private func take(_ operations: [FoldedOperation]) -> [FoldedOperation] {
        if let last = operations.last { position = last.position.offset }
        return operations
    }

    /// The registered author of an actor: a peer's key, `user:…`, `api-key:…`, or a service's lease.
    func author(of actor: ActorID) async throws -> String {
        if let known = authors[actor] { return known }
        let frontier = try await past.log.frontier(of: [actor], in: database)
        if authors.count >= Limits.knownAuthors { authors = [:] }
        let author = frontier[actor]?.authorKey ?? ""
        authors[actor] = author
        return author
    }

    /// Gives back what it holds. Called before it is dropped.
    func end() async {
        guard let fold else { return }
        self.fold = nil
        await past.folds.giveBack(fold)
    }
}
