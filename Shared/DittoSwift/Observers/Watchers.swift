import CRDT
import DQL

/// The observers of one collection that a change of a document can be compared with, for a moment.
///
/// Many of them ask for one field's value (`team = 7`): of those the field is read once a document, and only
/// the condition of an observer that asks for what stands there is looked at.
struct Watchers {
    private struct Watcher {
        let observer: DittoStoreObserver
        let query: ObservedQuery
    }

    /// Observers that ask for a value of the same field.
    private struct Field {
        let predicate: EqualityPredicate
        var watchers: [(key: [UInt8], watcher: Watcher)]
    }

    private var fields: [Field] = []
    private var others: [Watcher] = []

    /// Those of `observers` that watch a condition in this collection.
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

    /// A document was changed and is this now. `hash`: what stands for it at the gates.
    func changed(_ hash: UInt64, _ record: DocumentRecord) {
        for watcher in others { watcher.observer.changed(hash, matches: watcher.query.matches(record)) }
        for field in fields {
            // What cannot be read concerns everybody: running the queries says what is wrong with it.
            let found = Result { try field.predicate.key(of: record) }
            for (key, watcher) in field.watchers {
                let mayMatch = if case .success(let found) = found { found == key } else { true }
                watcher.observer.changed(hash, matches: mayMatch && watcher.query.matches(record))
            }
        }
    }

    /// A document was changed and is gone.
    func removed(_ hash: UInt64) {
        for watcher in others { watcher.observer.changed(hash, matches: false) }
        for field in fields {
            for (_, watcher) in field.watchers { watcher.observer.changed(hash, matches: false) }
        }
    }
}
