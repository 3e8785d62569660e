import CRDT
import GRDB

/// Pages of catch-ups that are durable and not visible yet: a row for each, so that keeping a page aside
/// costs one write of its bytes and no index.
///
/// A page's bytes are its documents one behind the other: a kind (0 a state, 1 what is gone, 2 what is void),
/// then collection, id and content, each behind its length in four bytes, little-endian. `keys` are the
/// 64-bit hashes of what it holds in ascending order, four times smaller than the least document: enough to
/// find one without reading the others.
enum StagedPages {
    /// One document of a page, in SQLite's own memory.
    struct Entry {
        let key: DocumentKey
        let content: UnsafeRawBufferPointer
        let kind: UInt8
        var isGone: Bool { kind == 1 }
        var isVoid: Bool { kind == 2 }
    }

    static func insert(_ updates: [DocumentUpdate], for subscription: [UInt8], _ database: Database) throws {
        guard !updates.isEmpty else { return }
        try database.run(
            """
            INSERT INTO staged_page (subscription, number, keys, bytes) VALUES
            (?1, (SELECT COALESCE(MAX(number), 0) + 1 FROM staged_page WHERE subscription = ?1), ?2, ?3)
            """, subscription, keys(of: updates), bytes(of: updates))
    }

    /// Returns whether any page is kept for a subscription.
    static func holdsAny(_ subscription: [UInt8], _ database: Database) throws -> Bool {
        try database.holds("SELECT 1 FROM staged_page WHERE subscription = ? LIMIT 1", subscription)
    }

    /// Visits what is staged for a subscription, in order.
    static func visit(
        _ subscription: [UInt8], _ database: Database, _ body: (Entry) throws -> Void
    ) throws {
        let statement = try RawStatement(
            fresh: "SELECT bytes FROM staged_page WHERE subscription = ? ORDER BY number", database,
            subscription)
        while try statement.step() { try visit(statement.blob(0), body) }
    }

    private static func bytes(of updates: [DocumentUpdate]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(updates.reduce(0) { $0 + $1.key.id.bytes.count + 64 + $1.content.bytes.count })
        for update in updates {
            bytes.append(update.content.kind)
            append(update.key.collection.text.utf8, to: &bytes)
            append(update.key.id.bytes, to: &bytes)
            append(update.content.bytes, to: &bytes)
        }
        return bytes
    }

    private static func append(_ run: some Collection<UInt8>, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: UInt32(run.count).littleEndian) { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: run)
    }

    private static func visit(_ page: UnsafeRawBufferPointer, _ body: (Entry) throws -> Void) throws {
        var place = 0
        func run() -> UnsafeRawBufferPointer {
            let count = Int(UInt32(littleEndian: page.loadUnaligned(fromByteOffset: place, as: UInt32.self)))
            defer { place += 4 + count }
            return UnsafeRawBufferPointer(rebasing: page[place + 4..<place + 4 + count])
        }
        while place < page.count {
            let kind = page[place]
            place += 1
            let collection = CollectionName(String(decoding: run(), as: UTF8.self))
            let id = DocumentID(trusted: [UInt8](run()))
            try body(
                Entry(key: DocumentKey(collection: collection, id: id), content: run(), kind: kind))
        }
    }

    private static func keys(of updates: [DocumentUpdate]) -> [UInt8] {
        let hashes = updates.map { hash(of: $0.key) }.sorted()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(8 * hashes.count)
        for hash in hashes { withUnsafeBytes(of: hash.littleEndian) { bytes.append(contentsOf: $0) } }
        return bytes
    }

    fileprivate static func hash(of key: DocumentKey) -> UInt64 {
        hash64(key.id.bytes, seed: UInt64(key.collection.text.utf8.count))
    }

    /// Looks into what is staged for one subscription; reads the keys of its pages once.
    struct Lookup {
        private let subscription: [UInt8]
        private let database: Database
        /// The latest page first.
        private var pages: [(number: Int64, keys: [UInt8])] = []
        private let documents: StagedDocuments?

        init(_ subscription: [UInt8], _ database: Database) throws {
            self.subscription = subscription
            self.database = database
            documents = try StagedDocuments.find(subscription, database)
            let statement = try RawStatement(
                cached: "SELECT number, keys FROM staged_page WHERE subscription = ? ORDER BY number DESC",
                database, subscription)
            while try statement.step() { pages.append((statement.int(0), statement.bytes(1))) }
        }

        /// The vector of the latest staged state of a document; nil if none is staged.
        func vector(of key: DocumentKey) throws -> VersionVector? {
            let hash = StagedPages.hash(of: key)
            for page in pages where Self.contains(hash, page.keys) {
                if let found = try state(of: key, in: page.number) { return found }
            }
            // Pages come behind documents, where there are both.
            return try documents?.withState(of: key, database) { try DocumentReader($0).vector() }
        }

        private func state(of key: DocumentKey, in number: Int64) throws -> VersionVector? {
            let statement = try RawStatement(
                cached: "SELECT bytes FROM staged_page WHERE subscription = ? AND number = ?", database,
                subscription, number)
            guard try statement.step() else { return nil }
            var vector: VersionVector?
            try StagedPages.visit(statement.blob(0)) { entry in
                guard entry.key == key, entry.kind == 0 else { return }
                vector = try DocumentReader(entry.content).vector()
            }
            return vector
        }

        private static func contains(_ hash: UInt64, _ keys: [UInt8]) -> Bool {
            keys.withUnsafeBytes { bytes in
                var range = 0..<bytes.count / 8
                while !range.isEmpty {
                    let middle = (range.lowerBound + range.upperBound) / 2
                    let found = UInt64(
                        littleEndian: bytes.loadUnaligned(fromByteOffset: 8 * middle, as: UInt64.self))
                    if found == hash { return true }
                    range = found < hash ? middle + 1..<range.upperBound : range.lowerBound..<middle
                }
                return false
            }
        }
    }
}

extension DocumentUpdate.Content {
    /// The encoding that it carries.
    fileprivate var bytes: [UInt8] {
        switch self {
        case .state(let state): state.bytes
        case .gone(let vector), .void(let vector): vector
        case .delta(_, let delta): delta.bytes
        }
    }

    var isState: Bool { if case .state = self { true } else { false } }

    fileprivate var kind: UInt8 {
        switch self {
        case .state, .delta: 0
        case .gone: 1
        case .void: 2
        }
    }
}
