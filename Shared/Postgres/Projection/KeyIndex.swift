import CRDT
import DQL

/// The definitions of a database's indexes, of which a projection builds and keeps what they say.
public struct ProjectionIndexes: Sendable {
    /// The collection that has the definitions.
    public let collection: CollectionName
    /// Reads them.
    public let all: @Sendable (any DocumentSource) throws -> [IndexDescription]

    /// Definitions that are documents of a collection.
    public init(
        in collection: CollectionName,
        _ all: @escaping @Sendable (any DocumentSource) throws -> [IndexDescription]
    ) {
        self.collection = collection
        self.all = all
    }
}

/// A document's entry in an index.
struct KeyEntry {
    let key: [UInt8]
    /// True if a part was cut.
    let isCut: Bool
    /// True if the key does not tell the values: `1.0` has the key of `1`.
    let isAmbiguous: Bool
}

/// An index of the catalog: a column `k<column>` of its collection's table that has the keys of the live
/// documents, as `KeyWriter` writes them, NULL for a document that the index leaves out; and an index of
/// PostgreSQL over that column.
struct KeyIndex: Sendable {
    let number: Int64
    /// The number of its column.
    let column: Int
    /// The index as a statement sees it.
    let description: IndexDescription
    private let fields: [IndexedField]

    init(_ number: Int64, column: Int, _ description: IndexDescription) {
        (self.number, self.column, self.description) = (number, column, description)
        fields = description.keys.map { IndexedField($0.path) }
    }

    var isReady: Bool { description.isReady }

    /// The bytes at which a part of its keys is cut.
    var partBytes: Int { Self.partBytes(keys: description.keys.count) }

    static func partBytes(keys: Int) -> Int {
        min(DQLLimits.indexPartBytes, PostgresLimits.indexKeyBytes / keys)
    }

    /// The entry of a live document; nil when the index leaves it out (EXCLUDE MISSING).
    func entry(of document: DocumentReader) throws -> KeyEntry? {
        var writer = KeyWriter(partBytes: partBytes)
        for (field, key) in zip(fields, description.keys) {
            let value = try field.value(in: document)
            if value == nil, !key.includesMissing { return nil }
            writer.append(value, isDescending: key.isDescending)
        }
        return KeyEntry(key: writer.bytes, isCut: writer.isTruncated, isAmbiguous: writer.isAmbiguous)
    }

    /// The index with an entry of which its keys say less than before; nil if they do not.
    func loss(by entry: KeyEntry) -> KeyIndex? {
        let isExact = description.isExact && !entry.isCut
        let tellsValues = description.tellsValues && !entry.isAmbiguous
        guard isExact != description.isExact || tellsValues != description.tellsValues else { return nil }
        return KeyIndex(
            number, column: column,
            IndexDescription(
                name: description.name, collection: description.collection, keys: description.keys,
                isReady: isReady, isExact: isExact, tellsValues: tellsValues))
    }

    /// The statement that notes what the keys of some indexes no longer say.
    static func noting(_ losses: [KeyIndex]) -> Connection.Step {
        Connection.Step(
            """
            UPDATE mimeo_projection.indexes SET is_exact = is_exact AND number <> ALL($1::int8[]),
                tells_values = tells_values AND number <> ALL($2::int8[])
            WHERE number = ANY($1::int8[]) OR number = ANY($2::int8[])
            """,
            [
                .int8Array(losses.filter { !$0.description.isExact }.map(\.number)),
                .int8Array(losses.filter { !$0.description.tellsValues }.map(\.number)),
            ])
    }
}

/// The key columns of one collection's table.
struct KeyColumns: Sendable {
    /// The indexes, in the order of their columns.
    var indexes: [KeyIndex] = []
    /// How many columns the table has.
    var made = 0
    /// How many of them have ever had keys.
    var used = 0

    /// Columns that an index has left.
    var free: [Int] {
        guard used > indexes.count else { return [] }
        let taken = Set(indexes.map(\.column))
        return (0..<used).filter { !taken.contains($0) }
    }

    /// The columns of a generation's collections, where there are or were indexes.
    static func all(of generation: Int32, _ connection: Connection) throws -> [CollectionName: KeyColumns] {
        let rows = try connection.query(
            """
            SELECT c.name, c.key_columns::int8, c.used_columns::int8, i.number, i.column_number::int8,
                i.name, i.keys, i.is_ready, i.is_exact, i.tells_values
            FROM mimeo_projection.collections c
            LEFT JOIN mimeo_projection.indexes i ON i.collection = c.number
            WHERE c.generation = $1::int4 AND c.used_columns > 0 ORDER BY c.number, i.column_number
            """, [.int8(Int64(generation))])
        var all: [CollectionName: KeyColumns] = [:]
        for row in 0..<rows.count {
            let collection = CollectionName(String(decoding: rows.bytes(row, 0), as: UTF8.self))
            var columns = all[collection] ?? KeyColumns()
            columns.made = Int(rows.int8(row, 1))
            columns.used = Int(rows.int8(row, 2))
            if !rows.isNull(row, 3) {
                columns.indexes.append(
                    KeyIndex(
                        rows.int8(row, 3), column: Int(rows.int8(row, 4)),
                        IndexDescription(
                            name: String(decoding: rows.bytes(row, 5), as: UTF8.self),
                            collection: collection, keys: try keys(rows.bytes(row, 6)),
                            isReady: rows.bool(row, 7), isExact: rows.bool(row, 8),
                            tellsValues: rows.bool(row, 9))))
            }
            all[collection] = columns
        }
        return all
    }

    private static func keys(_ bytes: [UInt8]) throws(ProjectionError) -> [IndexDescription.Key] {
        guard let keys = KeyForm.decode(bytes) else {
            throw ProjectionError(.damaged, "the definition of an index is damaged")
        }
        return keys
    }
}

/// The catalog of a generation's indexes as it was at a version.
struct KnownIndexes {
    let schema: Int64
    let version: UInt64
    let columns: [CollectionName: KeyColumns]
}
