import GRDB
import GRDBSQLite

/// The write-ahead log of a SQLite file whose commits are synced, as its writing connection sees it.
///
/// A sync behind a write that made the file longer also waits for the file system's journal, twice or three
/// times as long as one behind a write into what was there. So the file is kept longer than what is in it:
/// zeros are written behind its end, a part at a time, and the next commits go there. SQLite takes zeros for
/// what they are: a frame counts only with the salt of the log's header and a checksum over all before it.
///
/// A log whose pages a checkpoint has all written into the file begins anew at its beginning, in a file that
/// stays as long as it is. One that was closed is removed, so each opening begins with a short one.
///
/// Used on the connection it was made for only, and has to live as long.
package final class WriteAheadLog: @unchecked Sendable {
    // Unchecked: the connection is used by one thread at a time, and everything here on it.

    /// SQLite's own threshold: pages of a log that start a checkpoint.
    package static let usualCheckpointPages: Int32 = 1_000

    /// Pages in the log that start a checkpoint.
    private let checkpointPages: Int32
    /// Bytes of a page with its frame's header.
    private let frameBytes: Int64
    /// Frames in the log, as of this connection's last commit.
    private var frames: Int64 = 0
    /// Where the file ended when it was last looked at; commits since may have made it longer, and
    /// another process shorter: then nothing is written ahead until the log begins anew.
    private var end: Int64 = 0

    /// Takes the place of SQLite's automatic checkpoints on the connection that writes. The file must be in
    /// write-ahead mode.
    package init(of database: Database, checkpointPages: Int32 = usualCheckpointPages) throws {
        self.checkpointPages = checkpointPages
        frameBytes = Self.frameHeaderBytes + (try Int64.fetchOne(database, sql: "PRAGMA page_size") ?? 4_096)
        let this = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_wal_hook(
            database.sqliteConnection,
            { this, connection, name, frames in
                guard let this else { return SQLITE_OK }
                let log = Unmanaged<WriteAheadLog>.fromOpaque(this).takeUnretainedValue()
                log.note(frames: Int64(frames))
                // As SQLite's own: whether it works out is nothing that the commit depends on.
                if frames >= log.checkpointPages {
                    sqlite3_wal_checkpoint_v2(connection, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
                }
                return SQLITE_OK
            }, this)
    }

    /// Makes room for the next commit, if little is left. To be called in a write transaction, before its
    /// first write: nobody else makes the file longer meanwhile. What is written is durable with the
    /// transaction, or not; where it cannot be written, the commit makes the file longer itself, or says why
    /// not.
    package func makeRoom(_ database: Database) {
        guard lacksRoom, let file = Self.file(of: database) else { return }
        var size: Int64 = 0
        guard file.pointee.pMethods.pointee.xFileSize(file, &size) == SQLITE_OK else { return }
        end = size
        guard lacksRoom else { return }
        // SQLite's layer for files takes less than 128 KiB at once.
        let parts = min(max(size / Int64(Self.zeros.count), 1), Self.mostParts)
        for _ in 0..<parts {
            let code = Self.zeros.withUnsafeBytes {
                file.pointee.pMethods.pointee.xWrite(file, $0.baseAddress, Int32($0.count), end)
            }
            guard code == SQLITE_OK else { return }
            end += Int64(Self.zeros.count)
        }
    }

    /// Writes what a found write-ahead log holds into the file, syncs that, and begins a new log.
    ///
    /// A process whose sync failed leaves pages that the kernel shows and counts as clean, and that the disk
    /// does not have; a later sync does not mend that. So what is found counts only once it was written
    /// again. Where the disk is full, reading must go on; where another process has the file open, as
    /// `isShared` allows, it has seen no failed commit as one.
    package static func checkpoint(_ database: Database, isShared: Bool) throws {
        do {
            _ = try database.checkpoint(.truncate)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
        } catch let error as DatabaseError
            where isShared && [.SQLITE_BUSY, .SQLITE_LOCKED].contains(error.resultCode)
        {}
    }

    private func note(frames: Int64) {
        // It began anew, perhaps in a shorter file: another process may have cut it off.
        if frames < self.frames { end = 0 }
        self.frames = frames
    }

    /// Whether a small commit would make the file longer.
    private var lacksRoom: Bool { end - (Self.headerBytes + frames * frameBytes) < Self.leastRoom }

    /// The file below SQLite, through whatever layer it was opened with.
    private static func file(of database: Database) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(
            database.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
        guard code == SQLITE_OK, let file, file.pointee.pMethods != nil else { return nil }
        return file
    }

    private static let headerBytes: Int64 = 32
    private static let frameHeaderBytes: Int64 = 24
    /// A small commit's frames: some pages.
    private static let leastRoom: Int64 = 32 << 10
    /// What is written ahead: as much as there is, from one of these, which the first commit of an opening
    /// writes for whoever makes no other, to some of them, room for some twenty small commits.
    private static let zeros = [UInt8](repeating: 0, count: 64 << 10)
    private static let mostParts: Int64 = 4
}
