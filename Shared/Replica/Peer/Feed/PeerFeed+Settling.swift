import CRDT
import Exchange
import GRDB

// Documents that links brought, on their way to the server.

/// The documents that links have changed, as they are at one commit.
package struct LinkList: Sendable {
    /// The commit up to which it goes.
    package let through: UInt64
    /// The documents, in order.
    package fileprivate(set) var versions: [DocumentVersion] = []
    /// Their states; nil for one with withheld parts.
    fileprivate(set) var states: [DocumentKey: EncodedState?] = [:]

    fileprivate init(through: UInt64) { self.through = through }
}

extension PeerFeed {
    /// Begins a list of what links have changed. Some documents of which the server has not seen everything
    /// are named in it again, those first that have waited longest; more of them where it `isFirst` in its
    /// session.
    /// - Returns: the commit up to which it goes.
    package func beginLinkList(isFirst: Bool = false) throws -> UInt64 {
        let isAnyOpen = try replica.read { transaction in
            try transaction.withDatabase { try MetDocuments.holdsOpen($0) }
        }
        guard isAnyOpen else { return replica.head }
        return try store.committing { database, state in
            try MetDocuments.nameOpen(
                limit: isFirst ? ReplicaLimits.openHoldingsFirst : ReplicaLimits.openHoldings,
                bytes: ReplicaLimits.openBytes, at: state.head, database)
            if try Settled.commit(database) >= state.head {
                try Settled.note(state.head - min(state.head, 1), database)
            }
            return state.head
        }
    }

    /// All documents that links changed since the server was told last, as they are at one commit: it has a
    /// transaction whole, or not at all. Collections that are withheld from the server are left out.
    /// - Returns: nil if there are more documents, or more bytes of their states.
    package func wholeLinkList(documents limit: Int, bytes most: Int) throws -> LinkList? {
        let withheld = replica.withheld
        return try replica.read { transaction in
            try transaction.withDatabase { database in
                let head = try StoreState.load(database)?.head ?? 0
                let keys = try MetDocuments.meshed(
                    after: try Settled.commit(database), through: head, behind: nil, limit: limit + 1,
                    database)
                guard keys.count <= limit else { return nil }
                var list = LinkList(through: head)
                var size = 0
                for key in keys where !withheld.contains(key.collection) {
                    guard let state = try transaction.state(of: key) else { continue }
                    size += state.count
                    guard size <= most else { return nil }
                    let vector = try state.withUnsafeBytes { try DocumentReader($0).vector() }
                    list.versions.append(DocumentVersion(key: key, vector: vector.encoded()))
                    list.states[key] = .some(try transaction.openState(of: key))
                }
                return list
            }
        }
    }

    /// A page of the documents that links changed since the server was told last, up to a commit, with their
    /// vectors, where they are too much for a `LinkList`. Collections that are withheld from the server are
    /// left out.
    package func linkHoldings(after last: DocumentKey?, through commit: UInt64) throws -> HoldingsPage {
        let withheld = replica.withheld
        return try replica.read { transaction in
            try transaction.withDatabase { database in
                let settled = try Settled.commit(database)
                var page: [DocumentVersion] = []
                var size = 0
                var place = last
                while page.isEmpty {
                    let keys = try MetDocuments.meshed(
                        after: settled, through: commit, behind: place,
                        limit: ReplicaLimits.linkPage, database)
                    guard let next = keys.last else { return HoldingsPage(candidates: [], isLast: true) }
                    place = next
                    for key in keys where !withheld.contains(key.collection) {
                        guard let state = try transaction.state(of: key) else { continue }
                        size += state.count
                        guard page.isEmpty || size <= ReplicaLimits.linkPageBytes else { break }
                        let vector = try state.withUnsafeBytes { try DocumentReader($0).vector() }
                        page.append(DocumentVersion(key: key, vector: vector.encoded()))
                    }
                }
                return HoldingsPage(candidates: page, isLast: false)
            }
        }
    }

    /// The server has what links had changed up to a commit, as far as it takes it. It is asked about those
    /// documents now: some of them may be gone there, or newer.
    /// - Returns: the documents to ask for.
    package func settleLinks(through commit: UInt64, limit: Int) throws -> [DocumentKey] {
        try store.committing { database, state in
            try expire(state, database)
            let settled = try Settled.commit(database)
            guard settled < commit else { return }
            try MetDocuments.want(after: settled, through: commit, database)
            try Settled.note(commit, database)
            try MetDocuments.prune(settled: commit, database)
        }
        return try replica.wanted(limit: limit)
    }

    /// Documents of which the server has not seen everything are named again in later lists: the rest may
    /// come, or be refused later.
    func noteUnsettled(_ reception: Reception, _ state: StoreState, _ database: Database) throws {
        guard recording.recorder != nil, recording.hasServer else { return }
        var shown: [DocumentKey: VersionVector] = [:]
        for update in reception.updates {
            guard case .state(let bytes) = update.content else { continue }
            shown[update.key] = try bytes.withUnsafeBytes { try DocumentReader($0).vector() }
        }
        var collections = Collections()
        let settled = try Settled.commit(database)
        for key in reception.settles {
            let held = try collections.number(of: key.collection, database).flatMap {
                try DocumentRows.state($0, key.id, database)
            }?.withUnsafeBytes { try DocumentReader($0).vector() }
            let known = shown[key] ?? VersionVector()
            let isOpen = held?.entries.contains { entry in
                entry.time > known[entry.actor] ?? 0 && entry.actor != state.actor
            }
            guard isOpen ?? false else { continue }
            try MetDocuments.leaveOpen(key, at: state.head, settled: settled, database)
        }
    }

    /// The server lacks what an own operation rests on: its documents are named in the next list of what
    /// links have changed.
    /// - Returns: whether each document is here as the operation found it, or later.
    package func giveBases(of deferral: Deferral) throws -> Bool {
        try store.committing { database, state in
            let statement = try RawStatement(
                cached: "SELECT \(StoredOperation.columns) FROM operation WHERE actor = ? AND sequence = ?",
                database, deferral.actor.rawValue, deferral.sequence.rawValue)
            guard try statement.step() else { return true }
            let operation = try Operation(decoding: StoredOperation(statement).whole(database))
            // Changes up to the present commit are named again, and so are these documents.
            let settled = try Settled.commit(database)
            if settled >= state.head { try Settled.note(state.head - min(state.head, 1), database) }
            var collections = Collections()
            for change in operation.changes {
                let key = DocumentKey(collection: change.collection, id: change.id)
                let base = try DeltaReach(decoding: change.delta, stamp: operation.stamp).base
                let held = try collections.number(of: key.collection, database).flatMap {
                    try DocumentRows.state($0, key.id, database)
                }?.withUnsafeBytes { try DocumentReader($0).vector() }
                guard (held ?? VersionVector()).covers(base) else { return false }
                if held != nil { try MetDocuments.meshed(key, at: state.head, database) }
            }
            return true
        }
    }
}
