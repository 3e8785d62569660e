import CRDT
import DQL
import GRDB

/// An index of the catalog.
///
/// An index has a table of its own, `index_N`, with an entry for each live document: `key` as encoded by
/// `KeyWriter`, then the document's number, so that entries with equal keys follow in the order of a scan.
/// `held` has the values if the key does not determine them (`1.0` has the key of `1`).
final class StoredIndex: Sendable {
    /// The number in its table's name; never reused.
    let number: Int64
    /// The index as a statement sees it.
    let description: IndexDescription
    private let fields: [IndexedField]
    /// The SQL that adds the entry of a document that had none.
    let addition: String
    private let insertion: String
    private let removal: String

    init(_ number: Int64, _ description: IndexDescription) {
        self.number = number
        self.description = description
        fields = description.keys.map { IndexedField($0.path) }
        addition = "INSERT INTO index_\(number) (key, document, held) VALUES (?, ?, ?)"
        insertion = "INSERT OR REPLACE INTO index_\(number) (key, document, held) VALUES (?, ?, ?)"
        removal = "DELETE FROM index_\(number) WHERE key = ? AND document = ?"
    }

    /// A document's entry.
    struct Entry: Equatable {
        var key: [UInt8]
        /// The values of all keys, encoded; nil if the key determines them.
        var values: [UInt8]?
        /// True if a part was cut.
        var isCut = false

        static func == (left: Entry, right: Entry) -> Bool {
            left.key == right.key && left.values == right.values
        }
    }

    /// The entry of a live document; nil when the index leaves it out (EXCLUDE MISSING).
    func entry(of document: DocumentReader) throws -> Entry? {
        var writer = KeyWriter()
        var values: [Value?] = []
        for (field, key) in zip(fields, description.keys) {
            let value = try field.value(in: document)
            if value == nil, !key.includesMissing { return nil }
            writer.append(value, isDescending: key.isDescending)
            values.append(value)
        }
        return Entry(
            key: writer.bytes,
            values: writer.isAmbiguous && !writer.isTruncated ? EntryValues.encode(values) : nil,
            isCut: writer.isTruncated)
    }

    /// Adds the entry of a new document by `addition`.
    func add(
        _ entry: Entry, of document: Int64, _ statement: borrowing RawStatement, _ database: Database
    ) throws {
        statement.bind(2, document)
        if let values = entry.values { statement.bind(3, values) }
        try entry.key.withUnsafeBytes { key in
            statement.bind(1, inPlace: key)
            try statement.runInPlace()
        }
        if entry.isCut { try noteCut(database) }
    }

    func insert(_ entry: Entry, of document: Int64, _ database: Database) throws {
        let statement = try RawStatement(cached: insertion, database)
        statement.bind(1, entry.key)
        statement.bind(2, document)
        if let values = entry.values { statement.bind(3, values) }
        try statement.run()
        if entry.isCut { try noteCut(database) }
    }

    func remove(_ entry: Entry, of document: Int64, _ database: Database) throws {
        let statement = try RawStatement(cached: removal, database)
        statement.bind(1, entry.key)
        statement.bind(2, document)
        try statement.run()
    }

    /// Marks the index as inexact: it still finds documents, but neither sorts nor covers. Repeated for
    /// each cut entry, because a rolled-back savepoint takes the mark with it.
    private func noteCut(_ database: Database) throws {
        let statement = try RawStatement(
            cached: "UPDATE document_index SET exact = 0 WHERE number = ? AND exact", database)
        statement.bind(1, number)
        try statement.run()
        if database.changesCount > 0 { try IndexRows.noteChange(database) }
    }
}

/// The values of an entry, encoded as in documents.
enum EntryValues {
    static func encode(_ values: [Value?]) -> [UInt8] { ValueList.encode(values) }

    static func decode(_ bytes: UnsafeRawBufferPointer) throws -> [Value?] {
        if bytes.first == ValueList.version { return try ValueList.decode(bytes) }
        // The encoding of earlier versions: CBOR, an array of arrays, an empty one for MISSING.
        guard case .array(let values) = try CBOR.decode([UInt8](bytes)) else { return [] }
        return values.map { $0.arrayValue?.first }
    }
}
