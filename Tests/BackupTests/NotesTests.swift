import CRDT
import OperationLog
import TestSupport
import Testing

@testable import Backup

@Suite("Notes of backups in the log")
struct NotesTests {
    @Test("a note of the backup before is no reason for the next one; anything else is")
    func notes() async throws {
        try await Place.use { place in
            let log = try place.log("log")
            let system = try await Author(log, BackupMaker.systemDatabase, folder: place.folder)
            let app = try await Author(log, "app", folder: place.folder)
            try await app.execute("INSERT INTO backups DOCUMENTS ({'_id': 1})")
            try await place.backUp(log)
            var options = BackupMaker.Options()
            (options.isIncremental, options.notes) = (true, "backups")
            let made = { [options] in
                try await BackupMaker(log, into: place.backups, options, logger: Author.quiet).makeIfGrown()
                    != nil
            }
            #expect(try await !made())
            try await system.execute("INSERT INTO backups DOCUMENTS ({'_id': 'x'})")
            try await system.execute("UPDATE backups SET n = 1 WHERE _id = 'x'")
            #expect(try await !made())
            // The collection of a user's own database has nothing to do with it.
            try await app.execute("INSERT INTO backups DOCUMENTS ({'_id': 2})")
            #expect(try await made())
            #expect(try await !made())
            try await system.execute("INSERT INTO keys DOCUMENTS ({'_id': 'x'})")
            #expect(try await made())
            try system.close()
            try app.close()
        }
    }
}
