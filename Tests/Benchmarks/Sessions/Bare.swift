import CRDT
import DQL
import Foundation
import GRDBSQLite

/// Rows a second of a bare loop: SQLite, WAL, `synchronous = FULL`, a prepared INSERT of a key and bytes, a
/// commit for each `pageBytes`, in a file of its own.
func bareRate(_ path: String, _ rows: [(id: [UInt8], bytes: [UInt8])], pageBytes: Int) -> Double {
    var handle: OpaquePointer?
    check(sqlite3_open(path, &handle) == SQLITE_OK, "the bare file opens")
    defer { sqlite3_close(handle) }
    func run(_ sql: String) { check(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, sql) }
    run("PRAGMA journal_mode = WAL")
    run("PRAGMA synchronous = FULL")
    run("CREATE TABLE rows (number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, bytes BLOB NOT NULL)")
    var statement: OpaquePointer?
    check(
        sqlite3_prepare_v2(handle, "INSERT INTO rows (id, bytes) VALUES (?, ?)", -1, &statement, nil)
            == SQLITE_OK, "the insert is prepared")
    defer { sqlite3_finalize(statement) }
    let started = ContinuousClock.now
    var size = 0
    run("BEGIN IMMEDIATE")
    for row in rows {
        row.id.withUnsafeBytes { id in
            row.bytes.withUnsafeBytes { bytes in
                _ = sqlite3_bind_blob(statement, 1, id.baseAddress, Int32(id.count), nil)
                _ = sqlite3_bind_blob(statement, 2, bytes.baseAddress, Int32(bytes.count), nil)
                check(sqlite3_step(statement) == SQLITE_DONE, "a row is inserted")
            }
        }
        sqlite3_reset(statement)
        size += row.bytes.count + row.id.count
        if size >= pageBytes {
            size = 0
            run("COMMIT")
            run("BEGIN IMMEDIATE")
        }
    }
    run("COMMIT")
    return perSecond(rows.count, since: started)
}

/// Per second, since a moment.
func perSecond(_ count: Int, since start: ContinuousClock.Instant) -> Double {
    Double(count) / ((ContinuousClock.now - start) / .seconds(1))
}

/// A benchmark that went wrong ends at once.
func check(_ condition: Bool, _ what: String) {
    guard condition else { fatalError("failed: \(what)") }
}

/// The same documents as the bulk insert that a user would write: Python's `sqlite3`, each document's JSON
/// text made and inserted, all in one transaction (`Tests/Benchmarks/bulk.py`).
struct MadeTexts {
    private let folder: URL
    private var file: URL { folder.appendingPathComponent("documents.ndjson") }

    /// Writes the documents where the loop finds them.
    init(_ count: Int, folder: URL) throws {
        self.folder = folder
        let lines = try (0..<count).map { number in
            let id = try Samples.id(number).value
            return JSONText.print(
                .object(ObjectValue([(key: "_id", value: id)] + Samples.fields(number).entries)))
        }
        try Data(lines.joined(separator: "\n").utf8).write(to: file)
    }

    /// Rows a second.
    func rate() throws -> Double {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "Tests/Benchmarks/bulk.py", folder.path, file.path]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard let rate = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            fatalError("bulk.py printed no rate; run it from the project's folder")
        }
        return rate
    }
}
