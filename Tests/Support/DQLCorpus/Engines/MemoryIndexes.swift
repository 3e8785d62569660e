import CRDT
import DQL

/// Indexes of the naive store: computed for each scan, by the meaning of scans. They test the planner's use
/// of indexes without a store on disk.
extension MemoryStore: IndexedSource {
    /// See `IndexedSource`.
    public func catalog(of collection: CollectionName) throws -> IndexCatalog {
        IndexCatalog(version: UInt64(indexVersion), indexes: indexes.filter { $0.collection == collection })
    }

    /// See `IndexedSource`.
    public func catalogVersion(of collection: CollectionName) throws -> UInt64 { UInt64(indexVersion) }

    /// See `IndexedSource`.
    public func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws {
        for entry in try sortedEntries(scan) {
            var goesOn = true
            try lookup(scan.index.collection, entry.id) { goesOn = try visit($0) }
            if !goesOn { return }
        }
    }

    /// See `IndexedSource`.
    public func entries(
        of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool
    ) throws {
        for entry in try sortedEntries(scan) {
            let entry = IndexEntry(
                document: entry.number, id: parts.contains(.id) ? entry.id : nil,
                values: parts.contains(.values) ? entry.values : [])
            guard try visit(entry) else { return }
        }
    }

    /// See `IndexedSource`.
    public func documents(
        _ collection: CollectionName, numbered numbers: [Int64], _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        var number: Int64 = 0
        let wanted = Set(numbers)
        try scan(collection) { record in
            number += 1
            return try wanted.contains(number) ? visit(record) : true
        }
    }

    /// See `IndexedSource`.
    public func number(of id: DocumentID, in collection: CollectionName) throws -> Int64? {
        var number: Int64 = 0
        var found: Int64?
        try scan(collection) { record in
            number += 1
            if record.id == id { found = number }
            return found == nil
        }
        return found
    }

    /// See `IndexedSource`.
    public func count(of collection: CollectionName) throws -> Int {
        var count = 0
        try scan(collection) { _ in
            count += 1
            return true
        }
        return count
    }

    /// See `IndexedSource`.
    public func numbers(
        of ranges: IDRanges, in collection: CollectionName, upTo most: Int
    ) throws -> [Int64]? {
        var number: Int64 = 0
        var all: [(number: Int64, id: [UInt8])] = []
        try scan(collection) { record in
            number += 1
            all.append((number, record.id.bytes))
            return true
        }
        all.sort { compareBytes($0.id, $1.id) < 0 }
        return ranges.runs.flatMap { run in
            let found = all.filter {
                compareBytes($0.id, run.lower) >= 0 && compareBytes($0.id, run.upper) < 0
            }
            guard let bound = ranges.bound(of: run) else { return found.map(\.number) }
            return (bound.fromEnd ? found.suffix(bound.count) : found.prefix(bound.count)).map(\.number)
        }
    }

    /// See `IndexedSource`.
    public func count(of scan: IndexScan) throws -> Int { try sortedEntries(scan).count }

    private typealias Entry = (number: Int64, id: DocumentID, values: [Value?])

    private func sortedEntries(_ scan: IndexScan) throws -> [Entry] {
        var found: [Entry] = []
        var number: Int64 = 0
        try self.scan(scan.index.collection) { record in
            number += 1
            guard let values = try scan.index.values(of: record.document),
                scan.ranges.contains(where: { $0.contains(values) })
            else { return true }
            found.append((number, record.id, values))
            return true
        }
        found.sort { left, right in
            let order = scan.index.compare(left.values, right.values)
            // Entries of equal keys ascend even if the index is read in reverse.
            return order == 0 ? left.number < right.number : (order < 0) != scan.isReversed
        }
        return found
    }

    /// Carries out CREATE INDEX or DROP INDEX.
    func change(_ change: IndexChange) throws {
        func place(_ collection: CollectionName, _ name: String) -> Int? {
            indexes.firstIndex { $0.collection == collection && $0.name == name }
        }
        indexVersion += 1
        switch change {
        case .create(let index, let ifNotExists):
            guard place(index.collection, index.name) == nil else {
                if ifNotExists { return }
                throw DQLError.indexExists(index.name, index.collection)
            }
            indexes.append(index)
            indexes.sort { $0.name < $1.name }
        case .drop(let collection, let name, let ifExists):
            guard let place = place(collection, name) else {
                if ifExists { return }
                throw DQLError.unknownIndex(name, collection)
            }
            indexes.remove(at: place)
        }
    }
}
