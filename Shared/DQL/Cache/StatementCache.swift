import CRDT

/// A cache of prepared statements; the least recently used are dropped first.
///
/// A value without a lock: its owner guards it and compiles outside of that lock. Compiling depends on the
/// text only (settings matter at execution), so the text is the whole key.
///
/// Invariants: `places` holds each node once; the nodes form one ring through the sentinel at 0, from the
/// most to the least recently used; `textBytes` is the sum of the cached texts.
public struct StatementCache: Sendable {
    /// Counts of the cache's events since it was made.
    public struct Statistics: Equatable, Sendable {
        /// Lookups that found a statement.
        public internal(set) var hits = 0
        /// Lookups that did not.
        public internal(set) var misses = 0
        /// Statements dropped to make room.
        public internal(set) var evictions = 0
    }

    private struct Node: Sendable {
        var statement: PreparedStatement?
        var hash: UInt64
        var uses: Int
        var newer: Int
        var older: Int
    }

    /// Counts of the cache's events.
    public private(set) var statistics = Statistics()
    /// The greatest number of cached statements; 0 caches none.
    public private(set) var capacity: Int
    private var places: [Key: Int] = [:]
    private var nodes: [Node] = [Node(statement: nil, hash: 0, uses: 0, newer: 0, older: 0)]
    private var free: [Int] = []
    private var textBytes = 0

    /// An empty cache.
    public init(capacity: Int = DQLLimits.cachedStatements) {
        precondition(capacity >= 0, "a cache cannot hold fewer than no statements")
        self.capacity = capacity
    }

    /// The number of cached statements.
    public var count: Int { places.count }

    /// The statement with exactly this text, if it is cached.
    public mutating func lookup(_ text: String) -> PreparedStatement? {
        guard let place = places[Key(text)] else {
            statistics.misses += 1
            return nil
        }
        statistics.hits += 1
        nodes[place].uses += 1
        if nodes[0].older != place {
            unlink(place)
            link(place)
        }
        return nodes[place].statement
    }

    /// Caches a statement, unless its text is longer than `DQLLimits.cachedTextBytes`.
    public mutating func insert(_ statement: PreparedStatement) {
        let key = Key(statement.text)
        let bytes = statement.text.utf8.count
        guard capacity > 0, bytes <= DQLLimits.cachedTextBytes, places[key] == nil else { return }
        while count >= capacity || textBytes + bytes > DQLLimits.cacheTextBytes { evict() }
        let node = Node(statement: statement, hash: key.hash, uses: 1, newer: 0, older: 0)
        let place = free.popLast() ?? nodes.count
        if place == nodes.count { nodes.append(node) } else { nodes[place] = node }
        places[key] = place
        textBytes += bytes
        link(place)
    }

    /// Changes the greatest number of cached statements; drops the excess.
    public mutating func resize(to capacity: Int) {
        precondition(capacity >= 0, "a cache cannot hold fewer than no statements")
        self.capacity = capacity
        while count > capacity { evict() }
    }

    /// The rows of `system:shared_statements`: one per statement, the most recently used first.
    public var rows: [ObjectValue] {
        var rows: [ObjectValue] = []
        var place = nodes[0].older
        while place != 0 {
            if let statement = nodes[place].statement {
                rows.append(
                    ObjectValue([
                        (key: "_id", value: .string(statement.text)),
                        (key: "statement", value: .string(statement.text)),
                        (key: "queryType", value: .string(statement.kind.rawValue)),
                        (key: "uses", value: .int(Int64(nodes[place].uses))),
                    ]))
            }
            place = nodes[place].older
        }
        return rows
    }

    // MARK: The ring

    private mutating func link(_ place: Int) {
        let first = nodes[0].older
        nodes[place].newer = 0
        nodes[place].older = first
        nodes[first].newer = place
        nodes[0].older = place
    }

    private mutating func unlink(_ place: Int) {
        let (newer, older) = (nodes[place].newer, nodes[place].older)
        nodes[newer].older = older
        nodes[older].newer = newer
    }

    private mutating func evict() {
        let place = nodes[0].newer
        guard let statement = nodes[place].statement else {
            preconditionFailure("a cache that is too full holds a statement")
        }
        unlink(place)
        places[Key(statement.text, hash: nodes[place].hash)] = nil
        textBytes -= statement.text.utf8.count
        nodes[place].statement = nil
        free.append(place)
        statistics.evictions += 1
    }

    /// A text with its hash, computed once. Texts are equal by their bytes.
    private struct Key: Hashable, Sendable {
        let text: String
        let hash: UInt64

        init(_ text: String) {
            var text = text
            hash = text.withUTF8 { hash64(UnsafeRawBufferPointer($0)) }
            self.text = text
        }

        init(_ text: String, hash: UInt64) {
            self.text = text
            self.hash = hash
        }

        func hash(into hasher: inout Hasher) { hasher.combine(hash) }

        static func == (left: Key, right: Key) -> Bool {
            left.hash == right.hash && utf8Equal(left.text, right.text)
        }
    }
}
