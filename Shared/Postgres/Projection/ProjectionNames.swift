import CRDT

/// PostgreSQL names for our names. Tables are named by numbers; views are named for people, who should find
/// the names they know.
enum ProjectionNames {
    /// PostgreSQL cuts longer identifiers.
    static let identifierBytes = 63

    /// The beginning of the name of a generation's schema; its number follows.
    static let schemaPrefix = "mimeo_g"

    /// The schema of a generation's tables.
    static func schema(_ generation: Int32) -> String { "\(schemaPrefix)\(generation)" }

    /// The schema of a generation's views while the generation is not the one that readers use.
    static func hiddenViews(_ generation: Int32) -> String { "mimeo_v\(generation)" }

    /// A collection's table, qualified.
    static func table(_ generation: Int32, _ number: Int64) -> String { "\(schema(generation)).c\(number)" }

    /// The schema of a database's views: `db_` and the database's id. The prefix is needed because an id
    /// may be `public`, or start with `pg_`, which PostgreSQL reserves.
    static func viewSchema(_ database: DatabaseID) -> String { fitting("db_" + database.text) }

    /// The name of a collection's view: the collection's own name, as far as PostgreSQL allows.
    static func view(_ collection: CollectionName) -> String { fitting(readable(collection.text)) }

    /// The name with a suffix that makes it unique: for names that are cut, or taken.
    static func distinct(_ name: String, _ bytes: [UInt8], attempt: Int = 0) -> String {
        let digits = String(hash64(bytes, seed: UInt64(attempt)), radix: 16)
        let suffix = "~" + String(repeating: "0", count: 16 - digits.count) + digits
        return cut(name, to: identifierBytes - suffix.utf8.count) + suffix
    }

    /// A text that PostgreSQL can hold: U+0000 becomes ␀ (U+2400).
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

    /// The longest prefix of whole scalars that fits.
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
