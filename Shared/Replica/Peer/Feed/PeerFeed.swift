import CRDT
import DQL
import Exchange
import GRDB

/// A peer's store as one end of a link: its own feed, and what it keeps of another's.
///
/// A view of the store: it holds nothing, and costs nothing.
package struct PeerFeed: Sendable {
    let replica: PeerReplica

    var store: DocumentStore { replica.store }
    var recording: FeedRecording { replica.recording }
}

extension PeerReplica {
    /// The store as one end of a link.
    package var feed: PeerFeed { PeerFeed(replica: self) }
}

extension PeerFeed {
    /// A start of the store, as its greeting tells it.
    package struct Start: Sendable {
        /// The feed's id.
        package let feed: LogID
        /// How often the store was started, this time included.
        package let starts: UInt64
        /// Eight random bytes of this start.
        package let start: UInt64
    }

    /// Lets other small peers follow this store, until `endFeed`. `hasServer`: documents that links bring are
    /// noted for the server. Feeds that were not met for long are forgotten.
    package func begin(hasServer: Bool) throws -> Start {
        let environment = store.environment
        let latest = Int64(clamping: environment.wallMilliseconds())
        return try store.committing { database, state in
            var identity = recording.identity
            if identity == nil {
                identity = try FeedIdentity.begin(
                    head: state.head, creates: true, environment, database)
            }
            guard let identity else { preconditionFailure("a feed was made, and is not there") }
            let old = latest - Int64(ReplicaLimits.feedPatience.components.seconds) * 1_000
            for table in ["link_cursor WHERE feed IN (SELECT feed FROM peer_feed WHERE met < ?1)"]
                + ["peer_feed WHERE met < ?1"]
            {
                try database.run("DELETE FROM \(table)", old)
            }
            try expire(state, database)
            try FutureStamps.forgetUnknown(database)
            let feeds = try PeerFeeds.all(database)
            recording.serve(identity, met: feeds, hasServer: hasServer)
            return Start(feed: identity.id, starts: identity.starts, start: identity.start)
        }
    }

    /// Forgets what was kept long enough: notes of void stamps, and tombstones.
    func expire(_ state: StoreState, _ database: Database) throws {
        let patience = UInt64(ReplicaLimits.removalPatience.components.seconds) * 1_000
        let now = store.environment.wallMilliseconds()
        guard now > patience else { return }
        let notes = try Notes.expire(before: now - patience, database)
        let tombstones = try OldTombstones.forget(before: now - patience, actor: state.actor, database)
        if notes + tombstones > 0 {
            store.logger.debug(
                "what was kept of removed documents has ended",
                metadata: ["notes": "\(notes)", "tombstones": "\(tombstones)"])
        }
    }

    /// Nobody follows this store any more. Arriving documents are still noted for the feeds that it knows.
    package func end() { recording.endServing() }

    /// Another peer has everything that it wants of this store up to a commit.
    package func noteTaken(_ commit: UInt64) { recording.noteTaken(commit) }

    /// The position after the last commit; nil before `beginFeed`.
    package func head() -> LogPosition? { position(of: replica.head) }

    /// The position after a commit.
    package func position(of commit: UInt64) -> LogPosition? {
        recording.identity?.position(of: commit)
    }

    /// Returns whether a cursor at this feed says what its owner was told.
    package func hasPosition(_ position: LogPosition) -> Bool {
        recording.identity?.has(position, head: replica.head) ?? false
    }

    // MARK: Another's feed

    /// The other small peer has greeted. Cursors at its feed count for the subscriptions that there are now,
    /// and only under the same right of it to write.
    package func meet(_ feed: LogID, writeMark: UInt64, subscriptions keys: [[UInt8]]) throws {
        let now = store.environment.wallMilliseconds()
        try store.committing { database, state in
            let known = try PeerFeeds.find(feed, database)
            let areSame = known?.rights == writeMark
            try LinkCursors.forgetAll(but: areSame ? keys : [], at: feed, database)
            let staged = areSame ? keys.map { LinkKey.of($0, at: feed) } : []
            try Staged.discardLinks(but: staged, at: feed, database)
            // Without a cursor everything that is held is listed.
            let asked = try LinkCursors.holdsAny(at: feed, database) ? known?.asked : nil
            try PeerFeeds.put(
                feed, asked: asked ?? state.head, rights: writeMark, met: now, database)
            recording.met(feed)
        }
    }

    /// The cursor of a subscription at a feed, and the rights that came with it; nil when it never completed
    /// a catch-up there.
    package func linkCursor(
        of key: [UInt8], at feed: LogID
    ) throws -> (position: LogPosition, rights: [UInt8])? {
        try replica.read { transaction in
            try transaction.withDatabase { database in
                try LinkCursors.find(key, at: feed, database).map { ($0.position, $0.rights) }
            }
        }
    }

    /// A subscription is cancelled, refused, or lists again what is held: its cursor and staged pages at a
    /// feed go.
    package func forgetLink(of key: [UInt8], at feed: LogID) throws {
        try store.committing { database, _ in
            try LinkCursors.forget(key, at: feed, database)
            try Staged.discard(LinkKey.of(key, at: feed), database)
        }
    }

    /// Drops the staged pages of a subscription at a feed.
    package func discardLinkPages(of key: [UInt8], at feed: LogID) throws {
        try replica.discardStaged(for: LinkKey.of(key, at: feed))
    }

    /// The sender's token for continuing after the staged pages of a subscription at a feed.
    package func linkResumption(of key: [UInt8], at feed: LogID) throws -> [UInt8]? {
        try replica.resumption(of: LinkKey.of(key, at: feed))
    }

    /// As `stage`, for a page of a feed, unless `isStale` within the transaction.
    package func stage(
        _ page: StagedPage, from feed: LogID, isClockReliable: Bool = false, unless isStale: () -> Bool
    ) throws {
        var page = page
        page.subscription = LinkKey.of(page.subscription, at: feed)
        page.seen = nil
        page.hides = []
        let wall = store.environment.wallMilliseconds()
        try replica.stage(page, unless: isStale) { updates, database in
            try FutureStamps.leaveOut(
                of: updates, from: feed, wall: wall, isReliable: isClockReliable, database)
        }
    }

    /// Stores what a feed brought: documents and cursors, all or nothing. There is no authority: nothing is
    /// purged, hidden or asked for elsewhere, and what changes no document makes no commit. A cursor is
    /// stored if `isCurrent` within the transaction.
    package func receive(
        _ reception: Reception, from feed: LogID, isClockReliable: Bool = false,
        tellings: NoteTellings = NoteTellings(), collections: [[UInt8]: CollectionName] = [:],
        isCurrent: ([UInt8]) -> Bool = { _ in true }
    ) throws -> ReceptionOutcome {
        try replica.committing(from: feed) { database, state in
            var merger = Merger(
                database: database, state: state, authority: .link, recorder: recording.recorder,
                milliseconds: store.environment.wallMilliseconds(), tellings: tellings)
            if !reception.settles.isEmpty, try FutureStamps.holdsAny(of: feed, database) {
                try FutureStamps.settle(reception.settles, of: feed, database)
            }
            let updates = try FutureStamps.leaveOut(
                of: reception.updates, from: feed, wall: store.environment.wallMilliseconds(),
                isReliable: isClockReliable, database)
            // A delta may rest on what is ahead.
            func missing() throws -> [DocumentKey] {
                try merger.missing.filter { try !FutureStamps.holds($0, of: feed, database) }
            }
            try database.inPart {
                if let key = reception.publishes { try merger.publish(LinkKey.of(key, at: feed)) }
                // The void stamps of a document come first, then the state that is left of it.
                for update in updates {
                    try merger.mergeAnswer(update, presumesHeld: reception.presumesHeld)
                }
                try merger.conclude()
                guard try missing().isEmpty else { return false }
                for cursor in reception.cursors where isCurrent(cursor.key) {
                    if cursor.key == reception.publishes, let collection = collections[cursor.key] {
                        try LinkCursors.set(
                            cursor.key, of: collection, to: cursor.position,
                            rights: reception.rights ?? [], database)
                    } else {
                        try LinkCursors.advance(cursor.key, to: cursor.position, database)
                    }
                }
                return true
            }
            let wanting = try missing()
            guard wanting.isEmpty else { return (.wanting(wanting), nil) }
            tellings.note(merger.toldAgain)
            state = merger.state
            guard !merger.changed.isEmpty else { return (.stored, nil) }
            state.advance()
            return (
                .stored,
                PeerReplica.Commit(number: state.head, documents: merger.changed, actor: nil, wanted: [])
            )
        }
    }

    // MARK: Asking

    /// Documents that entered from elsewhere and that a feed was not asked about: at most `limit`, and the
    /// commit through which the feed was asked once these are answered.
    package func asks(
        for feed: LogID, in collections: Set<CollectionName>, limit: Int
    ) throws -> (keys: [DocumentKey], through: UInt64)? {
        try replica.read { transaction in
            try transaction.withDatabase { database in
                guard let asked = try PeerFeeds.find(feed, database)?.asked else { return nil }
                // Whole commits only: the others of the last one are asked about next.
                var found = try MetDocuments.entered(
                    after: asked, elsewhereThan: feed, limit: limit + 1, database)
                guard let last = found.last else { return nil }
                if found.count > limit, let first = found.first, first.commit < last.commit {
                    found.removeAll { $0.commit == last.commit }
                } else if found.count > limit {
                    found = try MetDocuments.entered(
                        after: asked, elsewhereThan: feed, limit: .max, database
                    ).filter { $0.commit == last.commit }
                }
                let keys = found.map(\.key).filter { collections.contains($0.collection) }
                return (keys, found.last?.commit ?? asked)
            }
        }
    }

    /// A feed was asked about everything that had entered up to a commit, and its answers are stored.
    package func asked(_ feed: LogID, through commit: UInt64) throws {
        try store.committing { database, _ in
            try PeerFeeds.asked(feed, through: commit, database)
            let settled = recording.hasServer ? try Settled.commit(database) : .max >> 1
            try MetDocuments.prune(settled: settled, database)
        }
    }
}

/// The feeds of other small peers that this store has met.
enum PeerFeeds {
    struct Known {
        /// Its peer was asked about everything that entered up to this own commit.
        let asked: UInt64
        /// A mark of its right to write here.
        let rights: UInt64
    }

    static func find(_ feed: LogID, _ database: Database) throws -> Known? {
        let statement = try RawStatement(
            cached: "SELECT asked, rights FROM peer_feed WHERE feed = ?", database, feed.bytes)
        guard try statement.step() else { return nil }
        return Known(asked: statement.bits(0), rights: statement.bits(1))
    }

    static func all(_ database: Database) throws -> Set<LogID> {
        let statement = try RawStatement(cached: "SELECT feed FROM peer_feed", database)
        var feeds: Set<LogID> = []
        while try statement.step() { if let id = LogID(bytes: statement.bytes(0)) { feeds.insert(id) } }
        return feeds
    }

    static func put(
        _ feed: LogID, asked: UInt64, rights: UInt64, met: UInt64, _ database: Database
    ) throws {
        try database.run(
            "INSERT OR REPLACE INTO peer_feed (feed, asked, rights, met) VALUES (?, ?, ?, ?)",
            feed.bytes, asked, rights, met)
    }

    static func asked(_ feed: LogID, through commit: UInt64, _ database: Database) throws {
        try database.run("UPDATE peer_feed SET asked = max(asked, ?) WHERE feed = ?", commit, feed.bytes)
    }
}
