import CRDT
import Exchange
import GRDB

/// Documents of links with stamps that are too far ahead of the clock (decision 0102): they are not taken,
/// and are asked for again when their time has come. The feed's cursor passes meanwhile.
///
/// Bounds: `ReplicaLimits.aheadDocuments`.
enum FutureStamps {
    private static let clock = "clock"

    /// A server has corrected the clock by so many milliseconds.
    static func noteCorrection(_ milliseconds: Int64, at wall: UInt64, _ database: Database) throws {
        let statement = try RawStatement(
            cached: "INSERT OR REPLACE INTO setting (key, value) VALUES (?, ?)", database)
        var bytes: [UInt8] = []
        for word in [UInt64(bitPattern: milliseconds), wall] {
            withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
        }
        statement.bind(1, clock)
        statement.bind(2, bytes)
        try statement.run()
    }

    /// The greatest stamp that is taken of a link now. `isReliable`: the computer keeps its clock in step
    /// with others.
    static func latest(wall: UInt64, isReliable: Bool, _ database: Database) throws -> Timestamp {
        let statement = try RawStatement(cached: "SELECT value FROM setting WHERE key = ?", database, clock)
        var corrected: UInt64?
        if try statement.step(), case let bytes = statement.bytes(0), bytes.count == 16 {
            let words = [0, 8].map { bytes[$0..<$0 + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
            let age = wall > words[1] ? wall - words[1] : words[1] - wall
            if age <= UInt64(ReplicaLimits.clockTrust.components.seconds) * 1_000 {
                corrected = UInt64(clamping: Int64(clamping: wall) &+ Int64(bitPattern: words[0]))
            }
        }
        guard let now = corrected ?? (isReliable ? wall : nil) else {
            return last(of: ReplicaLimits.latestMilliseconds)
        }
        return last(of: now + ReplicaLimits.aheadMilliseconds)
    }

    /// The last stamp of a millisecond.
    private static func last(of milliseconds: UInt64) -> Timestamp { milliseconds << 16 | 0xFFFF }

    /// A document of a feed is not taken before a time.
    static func note(
        _ key: DocumentKey, of feed: LogID, at time: Timestamp, _ database: Database
    ) throws {
        let count = try RawStatement(cached: "SELECT COUNT(*) FROM ahead", database)
        guard try count.step(), count.int(0) < Int64(ReplicaLimits.aheadDocuments) else {
            return try LinkCursors.forgetAll(but: [], at: feed, database)
        }
        let statement = try RawStatement(
            cached: "INSERT OR REPLACE INTO ahead (feed, collection, id, due) VALUES (?, ?, ?, ?)", database,
            feed.bytes, key)
        let milliseconds = HybridClock.milliseconds(of: time)
        statement.bind(4, bits: milliseconds - min(milliseconds, ReplicaLimits.aheadMilliseconds))
        try statement.run()
    }

    static func holds(_ key: DocumentKey, of feed: LogID, _ database: Database) throws -> Bool {
        try database.holds(
            "SELECT 1 FROM ahead WHERE feed = ? AND collection = ? AND id = ?", feed.bytes, key)
    }

    static func holdsAny(of feed: LogID, _ database: Database) throws -> Bool {
        try database.holds("SELECT 1 FROM ahead WHERE feed = ? LIMIT 1", feed.bytes)
    }

    /// The feed has answered about documents.
    static func settle(_ keys: some Sequence<DocumentKey>, of feed: LogID, _ database: Database) throws {
        for key in keys {
            try database.run(
                "DELETE FROM ahead WHERE feed = ? AND collection = ? AND id = ?", feed.bytes, key)
        }
    }

    static func due(
        of feed: LogID, at milliseconds: UInt64, limit: Int, _ database: Database
    ) throws -> [DocumentKey] {
        let statement = try RawStatement(
            cached: "SELECT collection, id FROM ahead WHERE feed = ? AND due <= ? ORDER BY due LIMIT ?",
            database, feed.bytes, milliseconds, Int64(limit))
        var keys: [DocumentKey] = []
        while try statement.step() {
            keys.append(statement.key(0))
        }
        return keys
    }

    /// Forgets a feed that was not met for long.
    static func forgetUnknown(_ database: Database) throws {
        try RawStatement(
            cached: "DELETE FROM ahead WHERE feed NOT IN (SELECT feed FROM peer_feed)", database
        ).run()
    }

    /// Leaves out of what a feed has brought the documents that are too far ahead, and notes them.
    static func leaveOut(
        of updates: [DocumentUpdate], from feed: LogID, wall: UInt64, isReliable: Bool, _ database: Database
    ) throws -> [DocumentUpdate] {
        let latest = try latest(wall: wall, isReliable: isReliable, database)
        var ahead: Set<DocumentKey> = []
        for update in updates {
            guard let time = try update.content.greatestTime, time > latest else { continue }
            ahead.insert(update.key)
            try note(update.key, of: feed, at: time, database)
        }
        return ahead.isEmpty ? updates : updates.filter { !ahead.contains($0.key) }
    }
}

extension DocumentUpdate.Content {
    /// The greatest time that a state or delta brings; nil for what is gone.
    fileprivate var greatestTime: Timestamp? {
        get throws {
            switch self {
            case .gone, .void: nil
            case .delta(let stamp, _): stamp.time
            case .state(let bytes):
                try Insertion.stamp(ofState: bytes)?.time
                    ?? bytes.withUnsafeBytes { bytes in try DocumentReader(bytes).vector().greatestTime }
            }
        }
    }
}

extension PeerFeed {
    /// Documents of a feed whose time has come.
    package func aheadDue(of feed: LogID, limit: Int) throws -> [DocumentKey] {
        let now = replica.correctedEnvironment.wallMilliseconds()
        return try replica.read { transaction in
            try transaction.withDatabase { database in
                guard try FutureStamps.holdsAny(of: feed, database) else { return [] }
                return try FutureStamps.due(of: feed, at: now, limit: limit, database)
            }
        }
    }

    /// A feed does not have documents that were asked for, or may not say so.
    package func settleAhead(_ keys: [DocumentKey], of feed: LogID) throws {
        try store.committing { database, _ in
            guard try FutureStamps.holdsAny(of: feed, database) else { return }
            try FutureStamps.settle(keys, of: feed, database)
        }
    }
}
