import CRDT
import DQL
import Dispatch
import Logging
import Replica
import Synchronization

/// The observers of one store, and the path of a commit to those it matters to.
///
/// `committed` runs while the next writer waits, so it only notes the changed documents. A separate queue
/// reads each changed document once and compares it with the observers of its collection. Observers without
/// a condition are notified at once. Nothing is lost: a noted document is read after it was noted, and a
/// later commit notes it again.
final class ObserverRegistry: Sendable {
    private struct State {
        var observers: Set<DittoStoreObserver> = []
        var pending: Set<DocumentKey> = []
        var isRouting = false
    }

    /// Reads the store; throws when the store is closed.
    typealias Read = @Sendable ((ReadTransaction) throws -> Void) throws -> Void

    private let state = Mutex(State())
    private let reader = Mutex<Read?>(nil)
    private static let routes = DispatchQueue(label: "ditto.routes")

    var all: Set<DittoStoreObserver> { state.withLock { $0.observers } }

    /// Sets the function that reads the store.
    func attach(_ read: @escaping Read) { reader.withLock { $0 = read } }

    func add(_ observer: DittoStoreObserver) { state.withLock { _ = $0.observers.insert(observer) } }
    func remove(_ observer: DittoStoreObserver) { state.withLock { _ = $0.observers.remove(observer) } }
    func cancelAll() { for observer in all { observer.cancel() } }
    /// Runs all queries again: a setting that affects reading has changed.
    func evaluateAll() { for observer in all { observer.changed() } }

    /// The number of observers, and of those with the same query and arguments as this one.
    func counts(like observer: DittoStoreObserver) -> (all: Int, alike: Int) {
        let observers = all
        return (observers.count, observers.count { $0.likeness == observer.likeness })
    }

    /// Called on the writer's thread after each commit.
    func committed(_ commit: PeerReplica.Commit) {
        let observers = all
        guard !observers.isEmpty else { return }
        var touched: [CollectionName] = []
        for document in commit.documents where !touched.contains(document.collection) {
            touched.append(document.collection)
        }
        var routed: [CollectionName] = []
        for observer in observers {
            guard let reads = observer.collections.first(where: touched.contains) else { continue }
            if !observer.isGated {
                observer.changed()
            } else if !routed.contains(reads) {
                routed.append(reads)
            }
        }
        guard !routed.isEmpty else { return }
        note(commit.documents.filter { routed.contains($0.collection) })
    }

    private func note(_ documents: [DocumentKey]) {
        enum Outcome { case waits, starts, isTooMuch }
        let outcome: Outcome = state.withLock { state in
            guard state.pending.count + documents.count <= Limits.routedDocuments else { return .isTooMuch }
            state.pending.formUnion(documents)
            defer { state.isRouting = true }
            return state.isRouting ? .waits : .starts
        }
        switch outcome {
        case .waits: break
        case .starts: Self.routes.async { self.route() }
        case .isTooMuch: tellAll(all, about: documents)
        }
    }

    private func route() {
        while true {
            let (pending, observers) = state.withLock { state in
                let pending = state.pending
                state.pending = []
                if pending.isEmpty { state.isRouting = false }
                return (pending, state.observers)
            }
            guard !pending.isEmpty else { return }
            do {
                try reader.withLock { $0 }? { transaction in
                    for (collection, ids) in Self.byCollection(pending) {
                        try Self.route(ids, of: collection, observers, transaction)
                    }
                }
            } catch {
                // Each query that runs finds the error itself.
                tellAll(observers, about: Array(pending))
            }
        }
    }

    private func tellAll(_ observers: Set<DittoStoreObserver>, about documents: [DocumentKey]) {
        let collections = Self.byCollection(documents).map(\.collection)
        for observer in observers where observer.collections.contains(where: collections.contains) {
            observer.changed()
        }
    }

    private static func byCollection(
        _ documents: some Sequence<DocumentKey>
    ) -> [(collection: CollectionName, ids: [DocumentID])] {
        var groups: [(collection: CollectionName, ids: [DocumentID])] = []
        for document in documents {
            if let place = groups.firstIndex(where: { $0.collection == document.collection }) {
                groups[place].ids.append(document.id)
            } else {
                groups.append((collection: document.collection, ids: [document.id]))
            }
        }
        return groups
    }

    private static func route(
        _ ids: [DocumentID], of collection: CollectionName, _ observers: Set<DittoStoreObserver>,
        _ transaction: ReadTransaction
    ) throws {
        let watchers = Watchers(observers, of: collection)
        for id in ids {
            let hash = ObserverGate.hash(id)
            var isLive = false
            try transaction.lookup(collection, id) { record in
                isLive = true
                watchers.changed(hash, record)
            }
            if !isLive { watchers.removed(hash) }
        }
    }
}
