import CRDT
import GRDB
import Synchronization

/// The last touches of documents and collections in the latest operations of each database; conditions are
/// checked against them (rule 22).
///
/// Held in memory. Entries are checksums, so in a file each lies on a page of its own: a thousand
/// operations of 300 bytes wrote several times their bytes for it. Touches that this process does not know
/// (from before its start, or by another process) are read from the operations when a condition needs them.
/// If that is too much, the condition counts as breached, and its author reads again. All databases
/// together are bounded; the least recently appended one is dropped first.
///
/// Invariants: parts follow each other without gap; a part knows of every touch in its range; the last one
/// ends where this process saw the log end. Changed only after commits, which come one at a time.
final class TouchIndex: Sendable {
    fileprivate struct Part {
        /// The part covers offsets after this one, up to and including `through`.
        let from: Offset
        var through: Offset
        var offsets: [Touch: Offset] = [:]
        /// The last operation that does not say its touches; 0 for none.
        var anything: Offset = 0
    }

    fileprivate struct Known {
        var parts: [Part] = []
        /// The count of appends at its last append.
        var turn: UInt64 = 0

        var count: Int { parts.reduce(0) { $0 + $1.offsets.count } }
    }

    private struct State {
        var databases: [Int64: Known] = [:]
        /// Touches of all databases.
        var count = 0
        var turn: UInt64 = 0

        mutating func remove(_ database: Int64) -> Known? {
            let known = databases.removeValue(forKey: database)
            count -= known?.count ?? 0
            return known
        }
    }

    private let state = Mutex(State())
    private let partTouches: Int
    private let allTouches: Int

    init(partTouches: Int = LogLimits.indexedTouches, allTouches: Int = LogLimits.indexedTouchesInAll) {
        self.partTouches = partTouches
        self.allTouches = allTouches
    }

    /// The number of touches in all databases.
    var count: Int { state.withLock { $0.count } }

    /// Records an append, or operations that were read: all touches after `start` up to `end`, in order.
    /// `anything` is the last operation among them that does not say its touches.
    func note(
        _ touches: [(touch: Touch, offset: Offset)], in database: Int64, after start: Offset,
        through end: Offset, anything: Offset = 0
    ) {
        state.withLock { state in
            // Taken out of the dictionary, so that nothing is copied.
            var known = state.remove(database) ?? Known()
            // Another process has appended in between.
            if known.parts.last.map({ $0.through != start }) ?? true { known.parts = [] }
            known.add(touches, after: start, through: end, anything: anything, limit: partTouches)
            state.turn += 1
            known.turn = state.turn
            state.databases[database] = known
            state.count += known.count
            // The least recently appended database is dropped, and read again if needed.
            while state.count > allTouches, state.databases.count > 1,
                let oldest = state.databases.min(by: { $0.value.turn < $1.value.turn })
            {
                _ = state.remove(oldest.key)
            }
        }
    }

    /// The last offset after `readAt`, up to `end`, at which one of these was touched; nil if none was.
    func last(
        of reads: [Touch], after readAt: Offset, head: LogHead, through end: Offset, _ db: Database
    ) throws -> Offset? {
        let known = known(in: head.number, after: readAt) ?? readAt
        if known < end {
            guard known.distance(to: end) <= LogLimits.readForConditions,
                try read(head, after: known, through: end, db)
            else { return end }
        }
        return state.withLock { state in
            // The part that was read may have replaced older ones.
            guard let parts = state.databases[head.number]?.parts, let first = parts.first,
                first.from <= readAt, let through = parts.last?.through, through >= end
            else { return end }
            var last: Offset = 0
            for part in parts {
                last = max(last, part.anything)
                for read in reads { last = max(last, part.offsets[read] ?? 0) }
            }
            return last > readAt ? last : nil
        }
    }

    /// The offset up to which everything after `readAt` is known; nil if its beginning is not.
    private func known(in database: Int64, after readAt: Offset) -> Offset? {
        state.withLock { state in
            guard let parts = state.databases[database]?.parts, let first = parts.first,
                first.from <= readAt
            else { return nil }
            return parts.last?.through
        }
    }

    /// Records the touches that a range of operations name; false if they are too many to read.
    private func read(
        _ head: LogHead, after start: Offset, through end: Offset, _ db: Database
    ) throws -> Bool {
        var touches: [(touch: Touch, offset: Offset)] = []
        var anything: Offset = 0
        var bytes = 0
        let statement = try FastStatement(
            "SELECT position, bytes FROM operations WHERE position > ? AND position <= ? ORDER BY position",
            db)
        statement.bind(1, LogKey.of(database: head.number, offset: start))
        statement.bind(2, LogKey.of(database: head.number, offset: end))
        try statement.each { row in
            bytes += row.count(1)
            guard bytes <= LogLimits.readForConditionsBytes else { return false }
            let offset = LogKey.offset(of: row.int(0))
            if let operation = try? Operation(decoding: row.bytes(1)) {
                for touch in Touch.all(of: operation) { touches.append((touch, offset)) }
            } else {
                anything = offset
            }
            return true
        }
        guard bytes <= LogLimits.readForConditionsBytes else { return false }
        note(touches, in: head.number, after: start, through: end, anything: anything)
        return true
    }
}

extension TouchIndex.Known {
    /// Adds touches to the last part, and to new ones when that is full. An operation that touches more
    /// than a part can hold counts as touching everything.
    fileprivate mutating func add(
        _ touches: [(touch: Touch, offset: Offset)], after start: Offset, through end: Offset,
        anything: Offset, limit: Int
    ) {
        if parts.isEmpty { parts.append(TouchIndex.Part(from: start, through: start)) }
        var offset: Offset = 0
        var countOfOne = 0
        var anything = anything
        for item in touches {
            countOfOne = item.offset == offset ? countOfOne + 1 : 1
            if item.offset != offset, parts[parts.count - 1].offsets.count >= limit {
                parts[parts.count - 1].through = item.offset.previous
                parts.append(TouchIndex.Part(from: item.offset.previous, through: item.offset.previous))
                if parts.count > 2 { parts.removeFirst() }
            }
            offset = item.offset
            guard countOfOne <= limit else {
                anything = max(anything, offset)
                continue
            }
            parts[parts.count - 1].offsets[item.touch] = item.offset
        }
        parts[parts.count - 1].anything = max(parts[parts.count - 1].anything, anything)
        parts[parts.count - 1].through = end
    }
}
