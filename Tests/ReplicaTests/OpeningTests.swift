import CRDT
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Replica

@Suite("Opening a store")
struct OpeningTests {
    @Test("a store that was read and closed is one file again")
    func closedStore() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder, TestEnvironment(seed: 1))
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(try replica.read { try $0.collectionNames() } == ["c"])
            try replica.close()
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            #expect(names == ["lock", "replica.sqlite"])
        }
    }

    @Test("a store cut to nothing after its closing is refused; one that was removed begins anew, as meant")
    func emptied() throws {
        try withTemporaryDirectory { folder in
            let store = try open(folder)
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try store.close()
            let file = folder.appendingPathComponent(DocumentStore.fileName)
            try Data().write(to: file)
            for _ in 0..<2 {
                let error = #expect(throws: ReplicaError.self) { _ = try open(folder) }
                #expect(error?.code == .damaged && error?.message.contains("is empty") == true)
                #expect(try Data(contentsOf: file).isEmpty)
            }
            try FileManager.default.removeItem(at: file)
            let next = try open(folder)
            #expect(try next.rows("SELECT * FROM c") == [])
            try next.close()
        }
    }

    @Test("a second replica on the directory gives up after five tries and four pauses of 200 ms")
    func lock() throws {
        try withTemporaryDirectory { folder in
            let first = try open(folder)
            let environment = TestEnvironment()
            #expect(code { _ = try open(folder, environment) } == .directoryLocked)
            #expect(environment.pauses == Array(repeating: .milliseconds(200), count: 4))
            #expect(try first.rows("SELECT * FROM c") == [])
        }
    }

    @Test("a materialization whose directory is in use says so at once: its service takes another one")
    func materializationLock() throws {
        try withTemporaryDirectory { folder in
            let environment = TestEnvironment()
            func materialize() throws -> Materialization {
                try Materialization(
                    directory: folder.path, environment: environment.environment,
                    logger: quiet)
            }
            let first = try materialize()
            #expect(code { _ = try materialize() } == .directoryLocked)
            #expect(environment.pauses == [])
            try first.close()
            _ = try materialize()
        }
    }

    @Test("a closed store has freed its directory, whoever still holds the object")
    func closeFrees() throws {
        try withTemporaryDirectory { folder in
            let first = try open(folder)
            try first.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try first.close()
            try first.close()
            let environment = TestEnvironment()
            let second = try open(folder, environment)
            #expect(environment.pauses.isEmpty)
            #expect(try second.rows("SELECT * FROM c") == ["{\"_id\":1}"])
            #expect(code { _ = try first.rows("SELECT * FROM c") } == .closed)
            #expect(code { try first.execute("DELETE FROM c") } == .closed)
        }
    }

    @Test("a directory that cannot be made is refused", arguments: ["file/store", "file", ""])
    func unusable(_ path: String) throws {
        try withTemporaryDirectory { folder in
            try Data("no directory".utf8).write(to: folder.appendingPathComponent("file"))
            let directory = path.isEmpty ? "" : folder.appendingPathComponent(path).path
            #expect(
                code {
                    _ = try PeerReplica(
                        directory: directory, environment: TestEnvironment().environment,
                        logger: quiet)
                } == .directoryUnusable)
        }
    }

    @Test(
        "a newer and an older format and a foreign SQLite file are refused and stay as they were",
        arguments: [
            (pragma: "user_version = 9000", code: ReplicaErrorCode.unsupportedFormat),
            (pragma: "user_version = \(Schema.oldestFormat - 1)", code: .unsupportedFormat),
            (pragma: "user_version = 1", code: .unsupportedFormat),
            (pragma: "application_id = 7", code: .damaged),
        ])
    func foreign(_ edit: (pragma: String, code: ReplicaErrorCode)) throws {
        try withTemporaryDirectory { folder in
            let store = try open(folder)
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try store.close()
            let file = folder.appendingPathComponent(DocumentStore.fileName)
            let queue = try DatabaseQueue(path: file.path)
            try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA \(edit.pragma)") }
            try queue.close()
            let bytes = try Data(contentsOf: file)
            #expect(code { _ = try open(folder) } == edit.code)
            #expect(try Data(contentsOf: file) == bytes)
        }
    }

    @Test("a rollback-journal file of another program is not turned into a WAL one")
    func foreignJournal() throws {
        try withTemporaryDirectory { folder in
            let store = try open(folder)
            try store.close()
            let file = folder.appendingPathComponent(DocumentStore.fileName)
            var bytes = try Data(contentsOf: file)
            // Offsets 18 and 19: 1 says rollback journal.
            (bytes[18], bytes[19], bytes[71]) = (1, 1, 0x42)
            try bytes.write(to: file)
            #expect(code { _ = try open(folder) } == .damaged)
            #expect(try Data(contentsOf: file) == bytes)
        }
    }

    @Test("a file that is no database is damaged, and a discarded one is made anew")
    func garbage() throws {
        try withTemporaryDirectory { folder in
            let file = folder.appendingPathComponent(DocumentStore.fileName)
            try Data(repeating: 0x5A, count: 8_192).write(to: file)
            #expect(code { _ = try open(folder) } == .damaged)
            try Materialization.discard(directory: folder.path)
            #expect(try open(folder).rows("SELECT * FROM c") == [])
        }
    }

    @Test(
        "a peer syncs every commit to disk, a materialization only its checkpoints",
        arguments: [
            (isPeer: true, level: 2), (isPeer: false, level: 1),
        ])
    func synchronous(_ expected: (isPeer: Bool, level: Int)) throws {
        try withTemporaryDirectory { folder in
            let replica: any Replica = expected.isPeer ? try open(folder) : try openFold(folder)
            let level = try replica.store.pool.writeWithoutTransaction { database in
                try Int.fetchOne(database, sql: "PRAGMA synchronous")
            }
            #expect(level == expected.level)
        }
    }

    @Test("documents, operations, actor, sequence and head survive reopening")
    func reopening() throws {
        try withTemporaryDirectory { folder in
            let first = try open(folder)
            let written = try first.execute("INSERT INTO c DOCUMENTS ({'_id': 'a', 'n': {'m': 1}})")
            let actor = first.actor
            let states = try first.everything()
            try first.close()
            let second = try open(folder, TestEnvironment(seed: 99))
            #expect(second.actor == actor)
            #expect(second.head == 1)
            #expect(try second.everything() == states)
            let operations = try second.ownOperations(of: actor, after: 0, maxBytes: 1_000)
            #expect(operations.map(\.bytes) == [written.operation?.encoded()])
            #expect(try second.execute("UPDATE c SET k = 1").operation?.sequence == 2)
        }
    }

    @Test("stamps go on rising across reopening and a wall clock that was set back a day")
    func clock() throws {
        try withTemporaryDirectory { folder in
            let environment = TestEnvironment()
            let first = try open(folder, environment)
            let before = try #require(try first.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").operation)
            try first.close()
            environment.milliseconds -= 86_400_000
            let second = try open(folder, environment)
            let after = try #require(try second.execute("UPDATE c SET a = 1").operation)
            #expect(after.timestamp > before.timestamp)
            #expect(after.actor == before.actor)
        }
    }

    @Test("a store that was put back in place draws other stamps than before, though its clock only counts")
    func putBackInPlace() throws {
        try withTemporaryDirectory { folder in
            let environment = TestEnvironment()
            let first = try open(folder, environment)
            try first.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try first.close()
            environment.milliseconds -= 86_400_000
            let file = folder.appendingPathComponent(DocumentStore.fileName)
            let kept = try Data(contentsOf: file)
            var stamps: [Stamp] = []
            for _ in 0..<3 {
                let store = try open(folder, environment)
                #expect(store.actor == first.actor)
                for _ in 0..<5 {
                    stamps.append(try #require(try store.execute("UPDATE c SET a = 1").operation).stamp)
                }
                try store.close()
                let handle = try FileHandle(forWritingTo: file)
                try handle.truncate(atOffset: 0)
                try handle.write(contentsOf: kept)
                try handle.close()
            }
            #expect(Set(stamps).count == 15)
            // What follows the log's greatest stamp by a millisecond at most is admitted (rule 21).
            let least = try #require(stamps.map(\.time).min())
            #expect(try #require(stamps.map(\.time).max()) - least < 65_536)
        }
    }

    @Test("a file that was removed and copied back is a copy, whatever inode it got")
    func copiedBack() throws {
        try withTemporaryDirectory { folder in
            let original = folder.appendingPathComponent("original")
            let copy = folder.appendingPathComponent("copy")
            let store = try open(original)
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try store.close()
            try FileManager.default.copyItem(at: original, to: copy)
            var actors = [store.actor]
            for _ in 0..<4 {
                try FileManager.default.removeItem(at: original)
                try FileManager.default.copyItem(at: copy, to: original)
                let again = try open(original, TestEnvironment(seed: UInt64(actors.count) + 7))
                actors.append(again.actor)
                try again.close()
            }
            #expect(Set(actors).count == 5)
        }
    }

    @Test("a copied directory writes as a new actor, the original goes on as the old one")
    func copy() throws {
        try withTemporaryDirectory { folder in
            let original = folder.appendingPathComponent("original")
            let copy = folder.appendingPathComponent("copy")
            let store = try open(original)
            let actor = store.actor
            try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            try store.close()
            try FileManager.default.copyItem(at: original, to: copy)
            let twin = try open(copy, TestEnvironment(seed: 2))
            let operation = try #require(try twin.execute("UPDATE c SET a = 1").operation)
            #expect(operation.actor != actor)
            #expect(operation.sequence == 1)
            #expect(try twin.ownActors().map(\.actor) == [actor, operation.actor])
            #expect(try open(original).actor == actor)
        }
    }
}
