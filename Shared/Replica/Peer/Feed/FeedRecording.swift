import CRDT
import Exchange
import GRDB
import Synchronization

/// A store's notes of its commits for links: documents that entered, and the latest changes for who
/// follows them. A store that has met no other small peer, and serves none, notes nothing.
///
/// `state` guards what transactions ask; `current` belongs to the transaction that has the write lock.
final class FeedRecording: Sendable {
    private struct State: Sendable {
        var identity: FeedIdentity?
        /// The feeds that were met, and not forgotten.
        var feeds: Set<LogID> = []
        /// True while anybody follows the changes.
        var isServed = false
        /// True if the store has a server, to which links may bring news.
        var hasServer = false
        /// The commit up to which another peer has everything, as far as one has said so since the start.
        var taken: UInt64 = 0
        /// True if the file was found to be put back since it was opened.
        var isPutBack = false
    }

    private let state: Mutex<State>
    private let current = Mutex<ChangeRecorder?>(nil)

    /// `identity`: nil for a store without a feed. `feeds`: those that were met.
    init(identity: FeedIdentity?, feeds: Set<LogID>) {
        state = Mutex(State(identity: identity, feeds: feeds))
    }

    var identity: FeedIdentity? { state.withLock { $0.identity } }

    /// True if links are served, and there is no server.
    var isWithoutServer: Bool { state.withLock { $0.identity != nil && $0.isServed && !$0.hasServer } }

    /// True if the store has a server, to which links may bring news.
    var hasServer: Bool { state.withLock { $0.hasServer } }

    // MARK: What happens to the feed

    /// Links follow this store from now on.
    func serve(_ identity: FeedIdentity, met feeds: Set<LogID>, hasServer: Bool) {
        state.withLock { state in
            (state.identity, state.feeds) = (identity, feeds)
            (state.isServed, state.hasServer) = (true, hasServer)
        }
    }

    /// Nobody follows this store any more.
    func endServing() { state.withLock { $0.isServed = false } }

    /// Another feed was met.
    func met(_ feed: LogID) { _ = state.withLock { $0.feeds.insert(feed) } }

    /// Another peer has everything up to a commit.
    func noteTaken(_ commit: UInt64) { state.withLock { $0.taken = max($0.taken, commit) } }

    /// Another peer names a place of this feed.
    /// - Returns: whether that shows for the first time that the file was put back.
    func notePlace(_ place: LogPosition, head: UInt64) -> Bool {
        state.withLock { state in
            guard !state.isPutBack, let identity = state.identity, identity.id == place.logID else {
                return false
            }
            let known = identity.position(of: place.offset.rawValue)
            state.isPutBack = place.offset.rawValue > head || known.map { $0 != place } ?? false
            return state.isPutBack
        }
    }

    // MARK: Recording

    /// The recorder of the transaction that has the write lock; nil while nothing is noted.
    var recorder: ChangeRecorder? { current.withLock { $0 } }

    func begin() {
        let state = state.withLock { $0 }
        guard state.identity != nil, state.isServed || !state.feeds.isEmpty else { return }
        let isAlone = state.isServed && !state.hasServer
        current.withLock { $0 = ChangeRecorder(untakenAfter: isAlone ? state.taken : nil) }
    }

    func end() { current.withLock { $0 = nil } }

    /// Notes a commit that is about to be made. `feed` is the one that brought it.
    func finish(
        _ commit: inout PeerReplica.Commit, from feed: LogID?, _ database: Database
    ) throws {
        guard let recorder, !commit.documents.isEmpty else { return }
        let state = state.withLock { $0 }
        guard let position = state.identity?.position(of: commit.number) else { return }
        let evicted = Set(commit.evicted)
        for key in commit.evicted { try MetDocuments.left(key, database) }
        let isAnyElsewhere = state.feeds.contains { $0 != feed }
        var changes: [FoldedOperation.Change] = []
        var isWhole = commit.documents.count <= ReplicaLimits.recordedDocuments && state.isServed
        var size = 0
        var collections = Collections()
        var done: Set<DocumentKey> = []
        for key in commit.documents where !evicted.contains(key) && done.insert(key).inserted {
            let item = recorder.items[key]
            let void = recorder.void[key]
            let stored = try collections.number(of: key.collection, database).flatMap {
                try DocumentRows.state($0, key.id, database)
            }
            // Where only its note is told again, a document that is not here is asked about as before.
            if stored == nil, void == nil { try MetDocuments.left(key, database) }
            // One that nothing was noted of counts as new: it is asked about once too often.
            let isReplaced = recorder.replaced.contains(key)
            let isNew = item?.before == nil
            let isSame = !isNew && item?.before == stored
            if isReplaced || (isNew && isAnyElsewhere && stored != nil) {
                try MetDocuments.entered(key, at: commit.number, from: isReplaced ? nil : feed, database)
                commit.hasEntered = true
            }
            // A document that went with its void stamps may be at the server: that is asked too.
            if state.hasServer, isReplaced || (feed != nil && stored != nil && !isSame) {
                try MetDocuments.meshed(key, at: commit.number, database)
                commit.isMeshed = true
            }
            // The note stands for a document that is gone altogether, or that is not told any more.
            let isTold = try !Notes.isQuarantined(key, stored, database)
            guard isWhole, let after = (isTold ? stored : nil) ?? (void != nil ? Document().encoded() : nil)
            else { continue }
            var change = FoldedOperation.Change(
                key: key, delta: void == nil ? item?.delta?.bytes : nil, before: item?.before, after: after)
            change.void = void?.encoded()
            change.stamp = item?.delta?.stamp
            changes.append(change)
            size += after.count + (item?.before?.count ?? 0)
            isWhole = size <= ReplicaLimits.recordedBytes
        }
        guard isWhole else { return }
        commit.recorded = FoldedOperation(
            position: position, stamp: Stamp(time: 0, actor: ActorID(0)), changes: changes)
    }
}
