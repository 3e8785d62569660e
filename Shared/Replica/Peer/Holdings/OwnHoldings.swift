import CRDT
import DQL
import Exchange
import GRDB

// Answers to a server that asks for the holdings of this store. Parts withheld from it are left out.

extension PeerReplica {
    /// The vectors of these documents, as far as they are here, deleted ones included; without withheld
    /// parts, as in `held`.
    public func versions(of keys: [DocumentKey]) throws -> [DocumentVersion] {
        try read { transaction in
            try keys.compactMap { key in
                guard let state = try transaction.state(of: key) else { return nil }
                let own = try transaction.withDatabase { try Withheld.actors(of: key.collection, $0) }
                let vector = try state.withUnsafeBytes { try DocumentReader($0).vector() }.without(own)
                return vector.isEmpty ? nil : DocumentVersion(key: key, vector: vector.encoded())
            }
        }
    }

    /// A page of the live documents here that match a subscription, or (`isWhole`) of all in its
    /// collection, after an id and ascending, with their vectors and whether they match. Parts withheld
    /// from the server are left out: documents made only of them, and the vector entries of the actors that
    /// wrote them.
    public func held(
        of query: SubscriptionQuery, after start: DocumentID?, isWhole: Bool = false
    ) throws -> HoldingsPage {
        try read { transaction in
            var page: [DocumentVersion] = []
            var size = 0
            var isLast = true
            let own = try transaction.withDatabase { try Withheld.actors(of: query.collection, $0) }
            try transaction.documents(of: query.collection, after: start, through: nil) { id, state in
                let document = try DocumentReader(state)
                let record = DocumentRecord(id: id, document: document)
                guard document.isLive else { return true }
                let matches = try query.matches(record)
                guard matches || isWhole else { return true }
                guard page.count < ReplicaLimits.heldDocuments, size < ReplicaLimits.heldBytes else {
                    isLast = false
                    return false
                }
                let vector = try document.vector().without(own)
                guard !vector.isEmpty else { return true }
                size += id.bytes.count + 16 * vector.entries.count
                page.append(
                    DocumentVersion(
                        key: DocumentKey(collection: query.collection, id: id), vector: vector.encoded(),
                        isUnmatched: !matches))
                return true
            }
            return HoldingsPage(candidates: page, after: start, isLast: isLast)
        }
    }

    /// A page of the store's holdings after a document, tombstones included, with the encoded vectors.
    /// Documents with parts withheld from the server are left out.
    public func holdings(after last: DocumentKey?) throws -> HoldingsPage {
        try read { transaction in
            try transaction.withDatabase { database in
                var page: [DocumentVersion] = []
                var size = 0
                var collections = Collections()
                for name in try Collections.names(database) {
                    if let last, name < last.collection { continue }
                    guard let table = try collections.number(of: name, database) else { continue }
                    let withheld = try Withheld.actors(of: name, database)
                    let start = last.map { $0.collection == name ? $0.id.bytes : [] } ?? []
                    let statement = try RawStatement(
                        fresh: "SELECT id, state FROM documents_\(table) WHERE id > ? ORDER BY id", database,
                        start)
                    while try statement.step() {
                        guard page.count < ReplicaLimits.heldDocuments, size < ReplicaLimits.heldBytes else {
                            return HoldingsPage(candidates: page, isLast: false)
                        }
                        let key = DocumentKey(collection: name, id: DocumentID(trusted: statement.bytes(0)))
                        let known = try DocumentReader(statement.blob(1)).vector()
                        if !withheld.isEmpty, known.without(withheld) != known { continue }
                        let vector = known.encoded()
                        size += vector.count + key.id.bytes.count + name.text.utf8.count
                        page.append(DocumentVersion(key: key, vector: vector))
                    }
                }
                return HoldingsPage(candidates: page, isLast: true)
            }
        }
    }

    /// The states of documents, to be given to the server; nil for one with withheld parts.
    /// - Parameter list: the list under way; its documents are given as they are in it.
    package func openStates(
        of keys: [DocumentKey], in list: LinkList? = nil
    ) throws -> [(key: DocumentKey, state: EncodedState?)] {
        let withheld = withheld
        return try read { transaction in
            try keys.map { key in
                guard let listed = list?.states[key] else { return (key, try transaction.openState(of: key)) }
                return (key, withheld.contains(key.collection) ? nil : listed)
            }
        }
    }
}

extension ReadTransaction {
    /// The state of a document, as the server may be told it: nil if it is tainted, or has withheld parts.
    func openState(of key: DocumentKey) throws -> EncodedState? {
        guard let state = try toldState(of: key) else { return nil }
        let own = try withDatabase { try Withheld.actors(of: key.collection, $0) }
        let vector = try state.withUnsafeBytes { try DocumentReader($0).vector() }
        return vector.without(own) == vector ? state : nil
    }
}
