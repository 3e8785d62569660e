import CRDT
import Exchange
import GRDB

/// The content kept aside, durable and not visible: documents of a first catch-up (`StagedDocuments`), pages
/// of others (`StagedPages`), how far they reach, and states for a repair.
enum Staged {
    static func discard(_ subscription: [UInt8], _ database: Database) throws {
        try StagedDocuments.discard(subscription, database)
        for table in ["staged_page", "staged", "resumption"] {
            try database.run("DELETE FROM \(table) WHERE subscription = ?", subscription)
        }
    }

    /// Forgets everything that a server brought.
    static func discardAll(_ database: Database) throws {
        for key in try keys(database) where !LinkKey.isOne(key) { try discard(key, database) }
    }

    /// Forgets the staged pages of all other subscriptions; the states of a repair and pages of links stay.
    static func discardAll(but kept: [[UInt8]], _ database: Database) throws {
        for key in try keys(database) {
            let stays = kept.contains(key) || key == Repairer.subscription || LinkKey.isOne(key)
            if !stays { try discard(key, database) }
        }
    }

    /// Forgets pages of links: of one feed all but those of the keys given, or of all feeds.
    static func discardLinks(
        but kept: [[UInt8]] = [], at feed: LogID? = nil, _ database: Database
    ) throws {
        for key in try keys(database) where LinkKey.isOne(key) && !kept.contains(key) {
            if feed.map({ LinkKey.isOne(key, at: $0) }) ?? true { try discard(key, database) }
        }
    }

    private static func keys(_ database: Database) throws -> [[UInt8]] {
        let all = try RawStatement(
            fresh: """
                SELECT subscription FROM staged_page UNION SELECT subscription FROM staged
                UNION SELECT subscription FROM staged_documents UNION SELECT subscription FROM resumption
                """, database)
        var keys: [[UInt8]] = []
        while try all.step() { keys.append(all.bytes(0)) }
        return keys
    }

    /// Keeps a state for a repair.
    static func insert(
        _ key: DocumentKey, _ state: EncodedState, for subscription: [UInt8], _ database: Database
    ) throws {
        try database.run(
            """
            INSERT INTO staged (subscription, number, collection, id, state) VALUES
            (?1, (SELECT COALESCE(MAX(number), 0) + 1 FROM staged WHERE subscription = ?1), ?2, ?3, ?4)
            """, subscription, key, state.bytes)
    }

    static func note(_ token: [UInt8], for subscription: [UInt8], _ database: Database) throws {
        try database.run(
            "INSERT OR REPLACE INTO resumption (subscription, token) VALUES (?, ?)", subscription, token)
    }
}

extension PeerReplica {
    /// Stages a page, durable but invisible, until `Reception.publishes` names its subscription, and hides
    /// its hidden documents at once in the same transaction.
    public func stage(_ page: StagedPage) throws { try stage(page, unless: { false }) }

    /// The same; does nothing if the page `isStale` within the transaction, and takes what of it `chosen`
    /// leaves.
    func stage(
        _ page: StagedPage, unless isStale: () -> Bool,
        chosen: ([DocumentUpdate], Database) throws -> [DocumentUpdate] = { updates, _ in updates }
    ) throws {
        let subscription = page.subscription
        try committing { database, state in
            guard !isStale() else { return ((), nil) }
            let updates = try chosen(page.updates, database)
            var arePlain: [Bool] = []
            arePlain.reserveCapacity(updates.count)
            for update in updates {
                // Checked now, so that publishing cannot fail on what somebody sent.
                switch update.content {
                case .state(let bytes):
                    let plain = Insertion.stamp(ofState: bytes)?.time
                    arePlain.append(plain != nil)
                    if let latest = try plain ?? Document(decoding: bytes).vector.greatestTime {
                        try state.observe(latest)
                    }
                case .gone(let vector), .void(let vector):
                    _ = try VersionVector(decoding: vector)
                    arePlain.append(false)
                case .delta: preconditionFailure("a catch-up page holds no deltas")
                }
            }
            let isTaken = try StagedDocuments.take(
                updates, arePlain: arePlain, for: subscription, position: state.head + 1, database)
            if !isTaken {
                try StagedPages.insert(updates, for: subscription, database)
            }
            if let resume = page.resume { try Staged.note(resume, for: subscription, database) }
            if let seen = page.seen { try Seen.note(seen, replaces: false, database) }
            guard !page.hides.isEmpty else { return ((), nil) }
            try Cursors.forgetAll(but: liveKeys, database)
            var merger = Merger(database: database, state: state)
            try merger.hide(page.hides)
            guard !merger.changed.isEmpty else { return ((), nil) }
            state.advance()
            return (
                (), Commit(number: state.head, documents: merger.changed, actor: nil, wanted: [])
            )
        }
    }

    /// Prepares for the server's request to list a subscription's holdings: its staged pages are dropped,
    /// and its cursor stays but no longer describes the holdings. So if the session ends before the answer
    /// is stored, the next session asks again.
    public func startOver(_ subscription: [UInt8]) throws {
        try committing { database, _ in
            try Staged.discard(subscription, database)
            try Cursors.distrust(subscription, database)
            return ((), nil)
        }
    }

    /// Drops staged pages, of a subscription or of all: a catch-up that starts again.
    public func discardStaged(for subscription: [UInt8]? = nil) throws {
        try committing { database, _ in
            if let subscription {
                try Staged.discard(subscription, database)
            } else {
                try Staged.discardAll(database)
            }
            return ((), nil)
        }
    }

    /// Drops staged pages that no later session can continue: without a token, or of a subscription not in
    /// `kept`.
    public func discardStaged(but kept: [[UInt8]]) throws {
        try committing { database, _ in
            let all = try RawStatement(
                fresh: """
                    SELECT DISTINCT s.subscription, r.token IS NULL
                    FROM (SELECT subscription FROM staged UNION SELECT subscription FROM staged_page
                        UNION SELECT subscription FROM staged_documents) AS s
                    LEFT JOIN resumption AS r ON r.subscription = s.subscription
                    UNION SELECT subscription, 0 FROM resumption
                    """, database)
            var doomed: [[UInt8]] = []
            while try all.step() {
                let key = all.bytes(0)
                if LinkKey.isOne(key) { continue }
                if all.int(1) != 0 || !kept.contains(key) { doomed.append(key) }
            }
            for key in doomed { try Staged.discard(key, database) }
            return ((), nil)
        }
    }

    /// The server's token for continuing after the staged pages of a subscription; nil if there are none.
    public func resumption(of subscription: [UInt8]) throws -> [UInt8]? {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: "SELECT token FROM resumption WHERE subscription = ?", database, subscription)
                return try statement.step() ? statement.bytes(0) : nil
            }
        }
    }

    /// Hides all documents of a collection, because they may not be read here. Drops the cursor and the
    /// staged pages of the subscription that brought them, and of all subscriptions that are no longer
    /// registered. Cursors of the collection's other subscriptions no longer describe the holdings.
    public func hide(collection: CollectionName, subscription: [UInt8]) throws {
        try committing { database, state in
            let live = liveKeys.filter { $0 != subscription }
            try Cursors.forgetAll(but: live, database)
            try Staged.discardAll(but: live, database)
            for query in liveQueries where query.collection == collection {
                try Cursors.distrust(query.canonicalKey, database)
            }
            var merger = Merger(database: database, state: state)
            try merger.hide(try Self.keys(of: collection, database))
            guard !merger.changed.isEmpty else { return ((), nil) }
            state.advance()
            return (
                (), Commit(number: state.head, documents: merger.changed, actor: nil, wanted: [])
            )
        }
    }

    private static func keys(of collection: CollectionName, _ database: Database) throws -> [DocumentKey] {
        var collections = Collections()
        guard let table = try collections.number(of: collection, database) else { return [] }
        let statement = try RawStatement(fresh: "SELECT id FROM documents_\(table)", database)
        var keys: [DocumentKey] = []
        while try statement.step() {
            keys.append(DocumentKey(collection: collection, id: DocumentID(trusted: statement.bytes(0))))
        }
        return keys
    }
}
