import CRDT
import DQL

/// The observers of one collection whose conditions a changed document is compared with, for one round.
///
/// Many of them compare one field with a value (`team = 7`). For these the field is read once per document,
/// and only the conditions with that value are evaluated.
struct Watchers {
    private struct Watcher {
        let observer: DittoStoreObserver
        let query: ObservedQuery
    }

    /// Observers that compare the same field with a value.
    private struct Field {
        let predicate: EqualityPredicate
        var watchers: [(key: [UInt8], watcher: Watcher)]
    }

    private var fields: [Field] = []
    private var others: [Watcher] = []

    /// The observers that watch a condition in this collection.
    init(_ observers: some Sequence<DittoStoreObserver>, of collection: CollectionName) {
        for observer in observers {
            guard let query = observer.watched, query.collection == collection else { continue }
            let watcher = Watcher(observer: observer, query: query)
            guard let equality = query.equality else {
                others.append(watcher)
                continue
            }
            let known = fields.firstIndex { $0.predicate.path.elementsEqual(equality.path, by: utf8Equal) }
            if let known {
                fields[known].watchers.append((key: equality.key, watcher: watcher))
            } else {
                fields.append(
                    Field(predicate: equality, watchers: [(key: equality.key, watcher: watcher)]))
            }
        }
    }

    /// A document was changed. `hash` is its hash at the gates.
    func changed(_ hash: UInt64, _ record: DocumentRecord) {
        for watcher in others { watcher.observer.changed(hash, matches: watcher.query.matches(record)) }
        for field in fields {
            // An unreadable document concerns all observers: their queries report what is wrong with it.
            let found = Result { try field.predicate.key(of: record) }
            for (key, watcher) in field.watchers {
                let mayMatch = if case .success(let found) = found { found == key } else { true }
                watcher.observer.changed(hash, matches: mayMatch && watcher.query.matches(record))
            }
        }
    }

    /// A document was removed.
    func removed(_ hash: UInt64) {
        for watcher in others { watcher.observer.changed(hash, matches: false) }
        for field in fields {
            for (_, watcher) in field.watchers { watcher.observer.changed(hash, matches: false) }
        }
    }
}
