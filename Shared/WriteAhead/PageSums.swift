import CPageSums
import GRDB
import GRDBSQLite

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A checksum for every page of our SQLite files, so that damage is an error and never a wrong answer.
///
/// SQLite notices damage of its own structure only: a byte turned in a value would be read as another value.
/// A layer below SQLite (`CPageSums`) writes a sum into eight reserved bytes of each page, and compares it
/// when the page is read. A mismatch is `SQLITE_CORRUPT`. Files of earlier versions have no reserved bytes
/// and are read without sums, for ever.
package enum PageSums {
    private static let isRegistered = page_sums_register() == SQLITE_OK

    /// Makes all connections of a configuration keep and compare sums. A new file gets them. The file becomes
    /// readable by its owner only; SQLite gives its companions (`-wal`, `-shm`) the same mode.
    package static func add(to configuration: inout Configuration) {
        _ = isRegistered
        configuration.prepareDatabase { database in
            guard let connection = database.sqliteConnection else { return }
            if sqlite3_db_readonly(connection, "main") == 0 {
                if let path = sqlite3_db_filename(connection, "main") { makePrivate(String(cString: path)) }
                var reserved: CInt = PAGE_SUMS_BYTES
                sqlite3_file_control(connection, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved)
            }
            let code = sqlite3_file_control(connection, "main", PAGE_SUMS_CONTROL, nil)
            // Another layer that does not pass the call on leaves the file without sums.
            guard code == SQLITE_OK || code == SQLITE_NOTFOUND else {
                throw DatabaseError(resultCode: ResultCode(rawValue: code))
            }
        }
    }

    /// Sets the time after which a connection compares mapped pages again, for tests.
    static func setAge(milliseconds: CInt, of database: Database) {
        var age = milliseconds
        sqlite3_file_control(database.sqliteConnection, "main", PAGE_SUMS_AGE_CONTROL, &age)
    }

    /// Takes everybody's rights but the owner's from a file. Somebody else's file stays as it is.
    package static func makePrivate(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & 0o077 != 0 else { return }
        _ = chmod(path, 0o600)
    }
}
