import CRDT
import GRDB

/// The commit through which the server was told of everything that links brought.
enum Settled {
    private static let key = "settled"

    static func commit(_ database: Database) throws -> UInt64 {
        let statement = try RawStatement(cached: "SELECT value FROM setting WHERE key = ?", database, key)
        guard try statement.step() else { return 0 }
        return statement.bytes(0).reduce(0) { $0 << 8 | UInt64($1) }
    }

    static func note(_ commit: UInt64, _ database: Database) throws {
        try database.run(
            "INSERT OR REPLACE INTO setting (key, value) VALUES (?, ?)",
            key, withUnsafeBytes(of: commit.bigEndian) { Array($0) })
    }
}
