import CSQLite
import Foundation

/// Raw SQLite: a statement prepared once and stepped through its C interface, the first column of each row
/// copied.
struct Reference {
    struct Failure: Error {
        let message: String
    }

    private let database: OpaquePointer?

    init(file: String) throws {
        var database: OpaquePointer?
        guard sqlite3_open_v2(file, &database, SQLITE_OPEN_READONLY, nil) == SQLITE_OK else {
            throw Failure(message: "cannot open \(file)")
        }
        self.database = database
    }

    /// Seconds of each run, and how many rows the last one had.
    func run(_ sql: String, times: Int) throws -> (seconds: [Double], rows: Int) {
        defer { sqlite3_close(database) }
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK else {
            throw Failure(message: String(cString: sqlite3_errmsg(database)))
        }
        defer { sqlite3_finalize(statement) }
        var seconds: [Double] = []
        var count = 0
        for _ in 0..<times {
            var rows: [[UInt8]] = []
            let start = now()
            while sqlite3_step(statement) == SQLITE_ROW {
                let text = sqlite3_column_text(statement, 0)
                let bytes = UnsafeRawBufferPointer(
                    start: text, count: Int(sqlite3_column_bytes(statement, 0)))
                rows.append([UInt8](bytes))
            }
            sqlite3_reset(statement)
            seconds.append(now() - start)
            count = rows.count
        }
        return (seconds, count)
    }
}
