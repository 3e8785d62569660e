import CRDT

/// The column in which a store's tables have the keys of an index (`KeyWriter`), called `k` and a number.
public struct KeyColumn: Equatable, Sendable {
    /// The number.
    public let number: Int
    /// Where the parts of its keys are cut, in bytes.
    public let partBytes: Int

    /// A column.
    public init(number: Int, partBytes: Int) { (self.number, self.partBytes) = (number, partBytes) }

    /// The name of the column.
    var name: SQL { "k\(.number(number))" }

    /// The keys of a scan, in the order of the index.
    func intervals(of scan: IndexScan) -> [KeyInterval] {
        KeyInterval.disjoint(
            scan.ranges.map { KeyInterval($0, of: scan.index.keys, partBytes: partBytes) })
    }

    /// True if a scan's entries are those between two places of the index. Entries of one key have to be
    /// sorted by their ids, and the server knows no order of several ranges.
    func isOneRange(_ scan: IndexScan) -> Bool {
        let all = intervals(of: scan)
        return all.count == 1 && !all[0].isOneKey
    }

    /// Holds for the keys of a scan. If there are very many ranges, it holds for everything between the first
    /// and the last.
    func condition(_ scan: IndexScan) -> SQL {
        let all = intervals(of: scan)
        let keys = all.filter(\.isOneKey).map(\.lower)
        var ranges = all.filter { !$0.isOneKey }
        if ranges.count > DQLLimits.pushedRanges, let last = ranges.last { ranges = [ranges[0].to(last)] }
        var parts = ranges.map { range -> SQL in
            "(\(name) >= \(.bytes(range.lower)) AND \(name) < \(.bytes(range.upper)))"
        }
        if keys.count == 1 { parts.append("\(name) = \(.bytes(keys[0]))") }
        if keys.count > 1 { parts.append("\(name) = ANY(\(.byteStrings(keys)))") }
        return parts.isEmpty ? "false" : "(\(SQL.joined(parts, " OR ")))"
    }
}

extension KeyInterval {
    /// Everything from here to the end of another one.
    fileprivate func to(_ last: KeyInterval) -> KeyInterval {
        var all = self
        all.upper = last.upper
        return all
    }
}

/// One group of equal keys among the entries of an index.
public struct IndexGroup {
    /// The values of the keys; nil is MISSING.
    public let values: [Value?]
    /// The number of its entries.
    public let count: Int64
    /// The id of its first document in the order of a scan, encoded; empty if nobody asked for it.
    public let first: [UInt8]

    /// A group.
    public init(values: [Value?], count: Int64, first: [UInt8]) {
        (self.values, self.count, self.first) = (values, count, first)
    }
}

/// A path of the planner as a condition in SQL, which holds for each document that the path finds. It does
/// not matter to it whether a document is rough: keys are those of the document itself.
struct PushedConfinement: Sendable {
    let sql: SQL
    let path: AccessPath
    /// True if the statement names the index.
    let isForced: Bool

    /// nil if the path confines nothing that the store could ask its columns for.
    init?(_ path: AccessPath, _ pushing: any PushingSource, isForced: Bool = false) throws {
        guard let sql = try Self.condition(path, pushing) else { return nil }
        (self.sql, self.path, self.isForced) = (sql, path, isForced)
    }

    private static func condition(_ path: AccessPath, _ pushing: any PushingSource) throws -> SQL? {
        switch path {
        case .collection: return nil
        case .nothing: return "false"
        case .ids(let ids):
            let bytes = ids.map(\.bytes)
            guard bytes.allSatisfy({ $0.count <= DQLLimits.pushedIDBytes }) else { return nil }
            return "id = ANY(\(.byteStrings(bytes)))"
        case .idRanges(let ranges): return condition(ranges)
        case .index(let scan): return try pushing.keyColumn(of: scan.index)?.condition(scan)
        case .union(let paths):
            let parts = try paths.compactMap { try condition($0, pushing) }
            guard parts.count == paths.count else { return nil }
            return parts.isEmpty ? "false" : "(\(SQL.joined(parts, " OR ")))"
        case .intersection(let scans):
            let parts = try scans.compactMap { try condition(.index($0), pushing) }
            return parts.isEmpty ? nil : "(\(SQL.joined(parts, " AND ")))"
        }
    }
}

extension PushedConfinement {
    private static func condition(_ ranges: IDRanges) -> SQL {
        let parts = ranges.runs.map { run -> SQL in
            let range: SQL = "id >= \(.bytes(run.lower)) AND id < \(.bytes(run.upper))"
            guard ranges.first != nil else { return range }
            guard let bound = ranges.bound(of: run) else {
                return "(SELECT id FROM \(.table) WHERE live AND \(range))"
            }
            let order: SQL = bound.fromEnd ? "id DESC" : "id"
            return """
                (SELECT id FROM \(.table) WHERE live AND \(range) ORDER BY \(order) \
                LIMIT \(.integer(Int64(bound.count))))
                """
        }
        guard !parts.isEmpty else { return "false" }
        return ranges.first == nil
            ? "(\(SQL.joined(parts, " OR ")))" : "id IN (\(SQL.joined(parts, " UNION ALL ")))"
    }
}

extension PushedStatement {
    /// The documents of a path, in the order of a scan; nil if the store cannot tell them.
    static func documents(
        of path: AccessPath, in collection: CollectionName, _ pushing: any PushingSource
    ) throws -> PushedStatement? {
        guard let confinement = try PushedConfinement(path, pushing) else { return nil }
        return PushedComposer(collection: collection, test: nil, confinement: confinement).filter()
    }

    /// A scan's entries in its order, those of one key in the order of a scan of the collection.
    /// - Parameters:
    ///   - withDocuments: true for the columns of a document, false for its key, `id` and `whole`.
    public static func entries(
        of scan: IndexScan, _ column: KeyColumn, withDocuments: Bool, withIDs: Bool
    ) -> PushedStatement {
        let shown: SQL =
            withDocuments ? documentColumns : withIDs ? "\(column.name), id, whole" : column.name
        let order: SQL = scan.isReversed ? "\(column.name) DESC" : column.name
        let sql: SQL = """
            SELECT \(shown) FROM \(.table) WHERE live AND \(column.condition(scan)) ORDER BY \(order), id
            """
        return PushedStatement(
            collection: scan.index.collection, part: .filter, sql: sql, isExact: scan.index.isExact,
            wantsFirst: true, columns: withDocuments || withIDs ? 3 : 1, usesIndex: true,
            isInKeyOrder: column.isOneRange(scan))
    }

    /// The number of a scan's entries.
    public static func count(of scan: IndexScan, _ column: KeyColumn) -> PushedStatement {
        PushedStatement(
            collection: scan.index.collection, part: .filter,
            sql: "SELECT count(*) FROM \(.table) WHERE live AND \(column.condition(scan))", isExact: true,
            columns: 1)
    }

    /// The groups of equal keys among a scan's entries: key, count, and the first id, if it is needed.
    public static func groups(of scan: IndexScan, _ column: KeyColumn, needsFirst: Bool) -> PushedStatement {
        let first: SQL = needsFirst ? "min(encode(coalesce(whole, id), 'hex') COLLATE \"C\")" : "''::text"
        return PushedStatement(
            collection: scan.index.collection, part: .group,
            sql: """
                SELECT \(column.name), count(*), \(first) FROM \(.table) \
                WHERE live AND \(column.condition(scan)) GROUP BY \(column.name)
                """, isExact: true, columns: 3)
    }

    /// The number of a collection's documents, one by one.
    public static func count(of collection: CollectionName) -> PushedStatement {
        PushedStatement(
            collection: collection, part: .filter, sql: "SELECT count(*) FROM \(.table) WHERE live",
            isExact: true, columns: 1)
    }
}
