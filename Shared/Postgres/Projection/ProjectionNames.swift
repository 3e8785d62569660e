import CRDT

/// Names in PostgreSQL for names of ours. Those of tables are numbers; those of views are for people, who
/// should find what they know.
enum ProjectionNames {
    /// PostgreSQL cuts longer identifiers.
    static let identifierBytes = 63

    /// The schema of a generation's tables.
    static func schema(_ generation: Int32) -> String { "mimeo_g\(generation)" }

    /// The schema of a generation's views while the generation is not the one that readers use.
    static func hiddenViews(_ generation: Int32) -> String { "mimeo_v\(generation)" }

    /// A collection's table, qualified.
    static func table(_ generation: Int32, _ number: Int64) -> String { "\(schema(generation)).c\(number)" }

    /// What the schema of a database's views is called: `db_` and the database's id. A prefix, because an id
    /// may be `public`, or start with `pg_`, which PostgreSQL keeps for itself.
    static func viewSchema(_ database: DatabaseID) -> String { fitting("db_" + database.text) }

    /// What a collection's view is called: as the collection, as far as PostgreSQL can.
    static func view(_ collection: CollectionName) -> String { fitting(readable(collection.text)) }

    /// The name with what tells it from all others: for names that are cut, or taken.
    static func distinct(_ name: String, _ bytes: [UInt8], attempt: Int = 0) -> String {
        let digits = String(hash64(bytes, seed: UInt64(attempt)), radix: 16)
        let suffix = "~" + String(repeating: "0", count: 16 - digits.count) + digits
        return cut(name, to: identifierBytes - suffix.utf8.count) + suffix
    }

    /// A text as PostgreSQL can hold it: U+0000 becomes ␀ (U+2400).
    static func readable(_ text: String) -> String {
        guard text.utf8.contains(0) else { return text }
        var scalars = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { scalars.append(scalar == "\u{0}" ? "\u{2400}" : scalar) }
        return String(scalars)
    }

    /// An identifier in quotes.
    static func quoted(_ identifier: String) -> String {
        var result = "\""
        for scalar in identifier.unicodeScalars {
            if scalar == "\"" { result.unicodeScalars.append(scalar) }
            result.unicodeScalars.append(scalar)
        }
        return result + "\""
    }

    private static func fitting(_ name: String) -> String {
        name.utf8.count <= identifierBytes ? name : distinct(name, Array(name.utf8))
    }

    /// The longest start of whole scalars that fits.
    private static func cut(_ text: String, to bytes: Int) -> String {
        var result = String.UnicodeScalarView()
        var size = 0
        for scalar in text.unicodeScalars {
            size += UTF8.width(scalar)
            guard size <= bytes else { break }
            result.append(scalar)
        }
        return String(result)
    }
}
