import CRDT
import GRDB
import Synchronization

/// Where documents and collections were touched last, of the latest operations of each database: what
/// conditions are checked against (rule 22).
///
/// In memory. Entries are checksums, so in a file each lies on a page of its own: a thousand operations of
/// 300 bytes wrote several times their bytes for it. What this process does not know (from before it began,
/// by another process) is read from the operations when a condition was read behind it; where that is much,
/// the condition counts as broken, and whoever made it reads again.
///
/// Invariants: parts follow each other without gap; a part knows of every touch in its range; the last one
/// ends where this process saw the log end. Changed after commits only, which come one at a time.
final class TouchIndex: Sendable {
    private struct Part {
        /// It knows of what came after this offset, up to and including `through`.
        let from: UInt64
        var through: UInt64
        var offsets: [Touch: UInt64] = [:]
        /// The last operation that does not say what it touches; 0 for none.
        var anything: UInt64 = 0
    }

    private let databases = Mutex<[Int64: [Part]]>([:])

    /// Takes note of an append, or of what was read: everything touched after `start`, up to `end`, in order;
    /// `anything` is the last operation among them that does not say what it touches.
    func note(
        _ touches: [(touch: Touch, offset: UInt64)], in database: Int64, after start: UInt64,
        through end: UInt64, anything: UInt64 = 0
    ) {
        databases.withLock { databases in
            // Taken out, so that nothing is copied.
            var parts = databases.removeValue(forKey: database) ?? []
            // Somebody else has appended in between.
            if parts.last.map({ $0.through != start }) ?? true { parts = [] }
            if parts.last.map({ $0.offsets.count >= LogLimits.indexedTouches }) ?? true {
                parts.append(Part(from: start, through: start))
                if parts.count > 2 { parts.removeFirst() }
            }
            let last = parts.count - 1
            for (touch, offset) in touches { parts[last].offsets[touch] = offset }
            parts[last].anything = max(parts[last].anything, anything)
            parts[last].through = end
            databases[database] = parts
        }
    }

    /// The last offset after `readAt`, up to `end`, at which one of these was touched; nil where none was.
    func last(
        of reads: [Touch], after readAt: UInt64, head: LogHead, through end: UInt64, _ db: Database
    ) throws -> UInt64? {
        let known = known(in: head.number, after: readAt) ?? readAt
        if known < end {
            guard end - known <= LogLimits.readForConditions else { return end }
            try read(head, after: known, through: end, db)
        }
        return databases.withLock { databases in
            var last: UInt64 = 0
            for part in databases[head.number] ?? [] {
                last = max(last, part.anything)
                for read in reads { last = max(last, part.offsets[read] ?? 0) }
            }
            return last > readAt ? last : nil
        }
    }

    /// Up to where everything after an offset is known; nil where not even its beginning is.
    private func known(in database: Int64, after readAt: UInt64) -> UInt64? {
        databases.withLock { databases in
            guard let parts = databases[database], let first = parts.first, first.from <= readAt else {
                return nil
            }
            return parts.last?.through
        }
    }

    /// Takes note of what the operations of a range say of themselves.
    private func read(_ head: LogHead, after start: UInt64, through end: UInt64, _ db: Database) throws {
        var touches: [(touch: Touch, offset: UInt64)] = []
        var anything: UInt64 = 0
        let statement = try FastStatement(
            "SELECT position, bytes FROM operations WHERE position > ? AND position <= ? ORDER BY position",
            db)
        statement.bind(1, LogKey.of(database: head.number, offset: start))
        statement.bind(2, LogKey.of(database: head.number, offset: end))
        try statement.each { row in
            let offset = LogKey.offset(of: row.int(0))
            if let operation = try? Operation(decoding: row.bytes(1)) {
                for touch in Touch.all(of: operation) { touches.append((touch, offset)) }
            } else {
                anything = offset
            }
            return true
        }
        note(touches, in: head.number, after: start, through: end, anything: anything)
    }
}
