import GRDB
import GRDBSQLite

/// The index of a write-ahead log in shared memory, where every commit of every process shows at once.
///
/// Its header changes with each commit and is written last, after the commit's sync. So equal headers mean
/// that nothing was committed in between, which costs six loads to see, and no call of the system.
///
/// SQLite maps the index for as long as a connection of the process has the file open in this mode. Whoever
/// has this value must not ask it after the connection that it was made on is closed.
package struct WriteAheadIndex: @unchecked Sendable {
    // Unchecked: memory that other processes write too. A state that was read in between two of their writes
    // equals no other one.
    private let header: UnsafeRawPointer

    /// Finds the index. Nil for a connection without one.
    package init?(of database: Database) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(
            database.sqliteConnection, "main", SQLITE_FCNTL_FILE_POINTER, &file)
        guard code == SQLITE_OK, let file, let methods = file.pointee.pMethods, methods.pointee.iVersion >= 2,
            let map = methods.pointee.xShmMap
        else { return nil }
        var region: UnsafeMutableRawPointer?
        guard map(file, 0, Self.regionBytes, 0, &region) == SQLITE_OK, let region else { return nil }
        header = UnsafeRawPointer(region)
    }

    /// The header as it is now.
    package var state: State {
        var words = SIMD8<UInt64>()
        for index in 0..<Self.headerWords {
            words[index] = header.load(fromByteOffset: 8 * index, as: UInt64.self)
        }
        return State(words: words)
    }

    /// A header of the index: names a state of the file.
    package struct State: Sendable, Equatable {
        fileprivate let words: SIMD8<UInt64>

        /// The number of commits, which wraps around.
        package var commits: UInt32 { UInt32(truncatingIfNeeded: words[1]) }
    }

    /// SQLite's own unit of the shared memory (`WALINDEX_PGSZ`).
    private static let regionBytes: CInt = 32_768
    /// `WalIndexHdr` has 48 bytes.
    private static let headerWords = 6
}
