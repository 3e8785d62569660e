import CRDT

/// Reads the documents that an access path finds, each once.
struct AccessRunner {
    let source: any IndexedSource
    let collection: CollectionName
    let meter: ExecutionMeter
    /// Set by PROFILE.
    var statistics: ExecutionStatistics?

    /// Visits the documents until a visit returns false.
    func run(_ path: AccessPath, _ visit: (DocumentRecord) throws -> Bool) throws {
        switch path {
        case .nothing: return
        case .collection: try source.scan(collection, visit)
        case .ids(let ids) where ids.count == 1:
            try source.lookup(collection, ids[0]) { _ = try visit($0) }
        case .index(let scan) where scan.isOrdered || scan.isOneKey: try source.documents(of: scan, visit)
        // In the order of a scan, however the condition names the documents.
        case .ids, .idRanges, .index, .union, .intersection:
            if let pushing = source.pushing,
                let statement = try PushedStatement.documents(of: path, in: collection, pushing)
            {
                return try pushing.documents(of: statement, visit)
            }
            guard source.pushing == nil else { return try source.scan(collection, visit) }
            let before = statistics?.enter(.scan, counts: false)
            let known = try numbers(path)
            statistics?.leave(to: before)
            guard let found = known else { return try source.scan(collection, visit) }
            try source.documents(collection, numbered: found, visit)
        }
    }

    /// The documents of a union or intersection, ascending; nil when there are too many to hold.
    private func numbers(_ path: AccessPath) throws -> [Int64]? {
        switch path {
        case .nothing: return []
        case .collection: return nil
        case .ids(let ids):
            return Self.unique(
                try ids.compactMap {
                    try meter.step()
                    return try source.number(of: $0, in: collection)
                })
        case .idRanges(let ranges):
            try meter.step()
            return try source.numbers(of: ranges, in: collection, upTo: DQLLimits.heldNumbers)
                .map(Self.unique)
        case .index(let scan): return try numbers(of: scan, among: nil)
        case .union(let paths):
            var all: [Int64] = []
            for path in paths {
                guard let found = try numbers(path), all.count + found.count <= DQLLimits.heldNumbers
                else { return nil }
                all += found
            }
            return Self.unique(all)
        case .intersection(let scans):
            var common: [Int64]?
            for scan in scans {
                guard let found = try numbers(of: scan, among: common) else { return nil }
                common = found
            }
            return common ?? []
        }
    }

    /// The documents of a scan's entries, ascending; only those in `known`, if it is given.
    private func numbers(of scan: IndexScan, among known: [Int64]?) throws -> [Int64]? {
        let wanted = known.map(Set.init)
        if wanted?.isEmpty ?? false { return [] }
        var numbers: [Int64] = []
        var hasTooMany = false
        try source.entries(of: scan, []) { entry in
            try meter.step()
            if wanted?.contains(entry.document) ?? true { numbers.append(entry.document) }
            hasTooMany = numbers.count > DQLLimits.heldNumbers
            return !hasTooMany
        }
        return hasTooMany ? nil : Self.unique(numbers)
    }

    private static func unique(_ numbers: [Int64]) -> [Int64] {
        var result: [Int64] = []
        result.reserveCapacity(numbers.count)
        for number in numbers.sorted() where number != result.last { result.append(number) }
        return result
    }
}
