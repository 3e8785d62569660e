import CRDT
import Foundation
import GRDB

@testable import Replica

/// Everything a store holds, as texts that compare: the rows of all its tables, whichever those are by now.
struct StoreDump: Equatable, CustomStringConvertible {
    /// Where the file is and was made: two stores of equal content differ there.
    private static let places: Set<String> = ["device", "inode", "born"]

    let lines: [String]

    init(_ replica: some Replica) throws {
        lines = try replica.store.pool.read { try Self.lines(of: $0) }
    }

    private static func lines(of database: Database) throws -> [String] {
        let tables = try String.fetchAll(
            database, sql: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        var lines: [String] = []
        // A random number: stores of equal content differ there.
        for table in tables where table != "index_version" {
            let rows = try Row.fetchAll(database, sql: "SELECT * FROM \"\(table)\"")
            let texts = rows.map { row in
                row.filter { !places.contains($0.0) }.map { "\($0.0)=\(text($0.1))" }.joined(separator: " ")
            }
            lines += texts.sorted().map { "\(table): \($0)" }
        }
        return lines
    }

    /// Blobs by length and checksum: they are compared, not read.
    private static func text(_ value: DatabaseValue) -> String {
        guard case .blob(let data) = value.storage else { return value.description }
        return "\(data.count) bytes \(String(hash64([UInt8](data)), radix: 16))"
    }

    var description: String { lines.joined(separator: "\n") }
}
