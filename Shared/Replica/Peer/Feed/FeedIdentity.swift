import CRDT
import Exchange
import GRDB
import Machine

/// The store's feed, as other small peers know it: its commits, in order, under an id, each with the mark of
/// the start of the store in which it was made (decision 0084).
///
/// Invariants: a position that was told names one content. A store that is put back to an earlier state is
/// started anew, and its commits from there on have another mark; a copy has another id.
struct FeedIdentity: Sendable {
    /// Sixteen random bytes; new after a copy.
    let id: LogID
    /// How often the store was started since it has a feed.
    let starts: UInt64
    /// The starts whose marks are kept: the first commit of each, ascending, and its mark.
    private let marks: [(first: UInt64, mark: UInt64)]

    /// The mark of the present start.
    var start: UInt64 { marks.last?.mark ?? 0 }

    /// The position after a commit; nil for one whose mark is not kept any more.
    func position(of commit: UInt64) -> LogPosition? {
        var (low, high) = (0, marks.count)
        while low < high {
            let middle = (low + high) / 2
            if marks[middle].first <= commit { low = middle + 1 } else { high = middle }
        }
        guard low > 0 else { return nil }
        return LogPosition(logID: id, offset: Offset(commit), hash: marks[low - 1].mark)
    }

    /// Returns whether a position is of this feed as it is: everything up to there was told to its holder.
    func has(_ position: LogPosition, head: UInt64) -> Bool {
        position.offset.rawValue <= head && self.position(of: position.offset.rawValue) == position
    }

    /// Begins the feed of this start of the store: a new one where there is none, if it `creates`; else the
    /// commits from here on get a new mark.
    static func begin(
        head: UInt64, creates: Bool, _ environment: Environment, _ database: Database
    ) throws -> FeedIdentity? {
        let stored = try read(database)
        guard creates || stored != nil else { return nil }
        let id = stored?.id ?? draw(environment)
        let starts = (stored?.starts ?? 0) + 1
        let row = try RawStatement(
            cached: "INSERT OR REPLACE INTO feed (one, id, starts) VALUES (1, ?, ?)", database)
        row.bind(1, id.bytes)
        row.bind(2, bits: starts)
        try row.run()
        // No position of a feed that begins now is known to anybody, so its mark stands for all before.
        let mark = try RawStatement(
            cached: "INSERT OR REPLACE INTO feed_start (first, mark) VALUES (?, ?)", database)
        mark.bind(1, bits: stored == nil ? 0 : head + 1)
        mark.bind(2, bits: environment.random())
        try mark.run()
        let old = try RawStatement(
            cached: """
                DELETE FROM feed_start WHERE first < (
                    SELECT first FROM feed_start ORDER BY first DESC LIMIT 1 OFFSET ?)
                """, database)
        old.bind(1, Int64(ReplicaLimits.feedStarts - 1))
        try old.run()
        return FeedIdentity(id: id, starts: starts, marks: try marks(database))
    }

    /// The file is a copy: its feed is another one.
    static func forget(_ database: Database) throws {
        try RawStatement(cached: "DELETE FROM feed", database).run()
        try RawStatement(cached: "DELETE FROM feed_start", database).run()
    }

    private static func draw(_ environment: Environment) -> LogID {
        var bytes: [UInt8] = []
        for word in [environment.random(), environment.random()] {
            withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
        }
        guard let id = LogID(bytes: bytes) else { preconditionFailure("two words are sixteen bytes") }
        return id
    }

    private static func read(_ database: Database) throws -> (id: LogID, starts: UInt64)? {
        let statement = try RawStatement(cached: "SELECT id, starts FROM feed", database)
        guard try statement.step(), let id = LogID(bytes: statement.bytes(0)) else { return nil }
        return (id, statement.bits(1))
    }

    private static func marks(_ database: Database) throws -> [(first: UInt64, mark: UInt64)] {
        let statement = try RawStatement(
            cached: "SELECT first, mark FROM feed_start ORDER BY first", database)
        var marks: [(first: UInt64, mark: UInt64)] = []
        while try statement.step() { marks.append((statement.bits(0), statement.bits(1))) }
        return marks
    }
}
