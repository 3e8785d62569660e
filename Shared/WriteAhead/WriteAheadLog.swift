import GRDB
import GRDBSQLite

/// The write-ahead log of a SQLite file whose commits are synced, as its writing connection sees it.
///
/// A sync after a write that made the file longer also waits for the file system's journal. It takes two or
/// three times as long as a sync after a write into existing space. So the file is kept longer than its
/// content: zeros are written past its end, a part at a time, and the next commits overwrite them. SQLite
/// ignores zeros: a frame counts only with the salt of the log's header and a checksum over everything
/// before it.
///
/// When a checkpoint has copied all pages of a log into the database file, the log starts again at its
/// beginning and keeps its length. Closing removes the log, so each opening starts with a short one.
///
/// Used only on the connection it was made for, and must live as long as that connection.
package final class WriteAheadLog: @unchecked Sendable {
    // Unchecked: one thread at a time uses the connection, and everything here runs on the connection.

    /// SQLite's own threshold: the pages of a log that start a checkpoint.
    package static let usualCheckpointPages: Int32 = 1_000

    /// The pages in the log that start a checkpoint.
    private let checkpointPages: Int32
    /// The bytes of a page plus its frame's header.
    private let frameBytes: Int64
    /// The frames in the log, as of this connection's last commit.
    private var frames: Int64 = 0
    /// The end of the file when it was last looked at. Later commits may have made it longer, and another
    /// process may have made it shorter; in that case nothing is written ahead until the log starts again.
    private var end: Int64 = 0
    /// Remembers how far the log is durable.
    package let mark: WriteAheadMark?
    private let connection: OpaquePointer?

    /// Replaces SQLite's automatic checkpoints on the writing connection. The file must be in write-ahead
    /// mode.
    /// - Parameter mark: gets the last frame of each commit.
    package init(
        of database: Database, checkpointPages: Int32 = usualCheckpointPages, mark: WriteAheadMark? = nil
    ) throws {
        self.checkpointPages = checkpointPages
        self.mark = mark
        connection = database.sqliteConnection
        frameBytes = Self.frameHeaderBytes + (try Int64.fetchOne(database, sql: "PRAGMA page_size") ?? 4_096)
        let this = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_wal_hook(
            database.sqliteConnection,
            { this, connection, name, frames in
                guard let this else { return SQLITE_OK }
                let log = Unmanaged<WriteAheadLog>.fromOpaque(this).takeUnretainedValue()
                log.note(frames: Int64(frames))
                // As in SQLite itself, the commit does not depend on the checkpoint's success.
                if frames >= log.checkpointPages {
                    sqlite3_wal_checkpoint_v2(connection, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
                }
                return SQLITE_OK
            }, this)
    }

    /// Makes room for the next commit, if little is left. Call it in a write transaction before the first
    /// write; then no other connection makes the file longer meanwhile. The zeros need not become durable.
    /// If they cannot be written, the commit makes the file longer itself, or fails with the reason.
    ///
    /// An empty log may have been cut short by a checkpoint a moment ago. The cut becomes durable first: a
    /// disk that lost the cut and kept some of the zeros would show a beginning of the old log, which SQLite
    /// copies over newer pages, or a damaged one. (SQLite's own writes begin with the log's header, and are
    /// synced after it.)
    package func makeRoom(_ database: Database) {
        guard lacksRoom, let file = Self.file(of: database.sqliteConnection) else { return }
        var size: Int64 = 0
        guard file.pointee.pMethods.pointee.xFileSize(file, &size) == SQLITE_OK else { return }
        if size == 0, file.pointee.pMethods.pointee.xSync(file, SQLITE_SYNC_NORMAL) != SQLITE_OK {
            // A later sync would succeed without having saved it: no room until the log starts again.
            end = .max
            return
        }
        end = size
        guard lacksRoom else { return }
        // SQLite's file layer accepts less than 128 KiB at once.
        let parts = min(max(size / Int64(Self.zeros.count), 1), Self.mostParts)
        for _ in 0..<parts {
            let code = Self.zeros.withUnsafeBytes {
                file.pointee.pMethods.pointee.xWrite(file, $0.baseAddress, Int32($0.count), end)
            }
            guard code == SQLITE_OK else { return }
            end += Int64(Self.zeros.count)
        }
    }

    /// Copies the content of an existing write-ahead log into the database file, syncs that, and starts a
    /// new log.
    ///
    /// A process whose sync failed leaves pages that the kernel shows as clean although the disk does not
    /// have them; a later sync does not repair that. So the content counts only after it was written again.
    /// When the disk is full, reading must still work. When another process has the file open, as `isShared`
    /// allows, that process has not taken a failed commit for a successful one.
    package static func checkpoint(_ database: Database, isShared: Bool) throws {
        do {
            _ = try database.checkpoint(.truncate)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
        } catch let error as DatabaseError
            where isShared && [.SQLITE_BUSY, .SQLITE_LOCKED].contains(error.resultCode)
        {}
    }

    private func note(frames: Int64) {
        // The log started again, perhaps in a shorter file: another process may have truncated it.
        if frames < self.frames { end = 0 }
        self.frames = frames
        if let mark { remember(frames, in: mark) }
    }

    /// Runs after the commit's sync.
    private func remember(_ frames: Int64, in mark: WriteAheadMark) {
        guard frames > 0, let file = Self.file(of: connection) else { return }
        withUnsafeTemporaryAllocation(byteCount: Int(Self.frameHeaderBytes), alignment: 8) { header in
            let place = Self.headerBytes + (frames - 1) * frameBytes
            let code = file.pointee.pMethods.pointee.xRead(
                file, header.baseAddress, Int32(header.count), place)
            guard code == SQLITE_OK else { return }
            mark.record(frame: frames, header: UnsafeRawBufferPointer(header), frameBytes: frameBytes)
        }
    }

    /// True if a small commit would make the file longer.
    private var lacksRoom: Bool { end - (Self.headerBytes + frames * frameBytes) < Self.leastRoom }

    /// SQLite's own file, below any layer that it was opened with.
    private static func file(of connection: OpaquePointer?) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
        guard code == SQLITE_OK, let file, file.pointee.pMethods != nil else { return nil }
        return file
    }

    private static let headerBytes: Int64 = 32
    private static let frameHeaderBytes: Int64 = 24
    /// The frames of a small commit: a few pages.
    private static let leastRoom: Int64 = 32 << 10
    /// The unit of writing ahead. At least one is written, which the first commit of an opening pays for
    /// even if no other follows. At most `mostParts` are written at once, room for some twenty small
    /// commits.
    private static let zeros = [UInt8](repeating: 0, count: 64 << 10)
    private static let mostParts: Int64 = 4
}
