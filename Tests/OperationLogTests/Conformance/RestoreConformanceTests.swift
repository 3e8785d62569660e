import CRDT
import Testing

@testable import OperationLog
@testable import Postgres

@Suite("Log contract: restored databases")
struct RestoreConformanceTests {
    @Test(
        "a draft is seen by nobody until it is published, and is then a log of another identity",
        arguments: LogDriver.allCases)
    func hidden(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let other = try openAnother()
            let target = try #require(log as? any RestorableLog)
            _ = try await log.append(requests(1, 1...3), to: "db")
            let before = try await log.head(of: "db")
            let draft = try await target.beginRestore(of: "back", after: 0, hash: 0)
            #expect(try await log.append(requests(1, 1...3), to: draft).last == .appended(offset: 3))
            #expect(try await other.databases() == ["db"])
            #expect(try await code { _ = try await other.head(of: "back") } == .unknownDatabase)
            try await target.publish([draft], replacing: [])
            #expect(try await other.databases() == ["db", "back"])
            let head = try await other.head(of: "back")
            #expect(head.offset == 3)
            #expect(head.logID != before.logID)
            #expect(try await readAll(other, "back").map(\.bytes) == readAll(log, "db").map(\.bytes))
            #expect(try await other.append(requests(1, 4...4), to: "back") == [.appended(offset: 4)])
            await other.close()
        }
    }

    @Test(
        "a draft that begins after a snapshot knows its actors, and refuses what they had sent before",
        arguments: LogDriver.allCases)
    func afterSnapshot(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let target = try #require(log as? any RestorableLog)
            let draft = try await target.beginRestore(of: "back", after: 70, hash: 4_711)
            let known = FrontierEntry(sequence: 5, timestamp: 1_005, hash: 99, authorKey: "key")
            try await target.register([ActorID(1): known], in: draft)
            let start = try #require(try await log.position(at: 70, in: draft))
            #expect(start.hash == 4_711)
            let snapshot = try await log.beginSnapshot(of: draft, at: start)
            try await log.add([1, 2, 3], to: snapshot, in: draft)
            _ = try await log.finish(snapshot, in: draft)
            #expect(
                try await log.append(requests(1, 6...7) + requests(2, 1...1), to: draft).last
                    == .appended(offset: 73))
            try await target.publish([draft], replacing: [])
            let other = try openAnother()
            #expect(try await other.truncation(of: "back") == start)
            #expect(try await other.snapshot(of: "back")?.position == start)
            #expect(try await readAll(other, "back", after: 70).map(\.offset) == [71, 72, 73])
            #expect(try await code { _ = try await other.read("back", after: 69) } == .truncated)
            #expect(
                try await other.append([request(1, 6), request(1, 9)], to: "back") == [
                    .duplicate(through: 7), .gap(expected: 8),
                ])
            #expect(
                try await other.append([request(1, 8, key: "foreign")], to: "back")
                    == [.conflict(.foreignActor)])
            #expect(try await other.frontier(of: [ActorID(2)], in: "back")[ActorID(2)]?.sequence == 1)
            await other.close()
        }
    }

    @Test(
        "publishing replaces the databases it names, and takes no name that another one has",
        arguments: LogDriver.allCases)
    func replacing(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let target = try #require(log as? any RestorableLog)
            _ = try await log.append(requests(1, 1...3), to: "db")
            try await log.createDatabase("gone")
            let draft = try await target.beginRestore(of: "db", after: 0, hash: 0)
            #expect(try await code { _ = try await target.beginRestore(of: "db", after: 0, hash: 0) } != nil)
            _ = try await log.append(requests(9, 1...1), to: draft)
            #expect(try await code { try await target.publish([draft], replacing: ["gone"]) } != nil)
            #expect(try await log.head(of: "db").offset == 3)
            try await target.publish([draft], replacing: ["db", "gone"])
            #expect(try await log.databases() == ["db"])
            #expect(try await readAll(log).map(\.actor) == [ActorID(9)])
        }
    }

    @Test("an interrupted restore leaves nothing once the next one has begun", arguments: LogDriver.allCases)
    func interrupted(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let target = try #require(log as? any RestorableLog)
            let draft = try await target.beginRestore(of: "back", after: 0, hash: 0)
            _ = try await log.append(requests(1, 1...100), to: draft)
            try await target.discardDrafts()
            #expect(try await code { _ = try await log.head(of: draft) } == .unknownDatabase)
            let again = try await target.beginRestore(of: "back", after: 0, hash: 0)
            #expect(try await log.head(of: again).offset == 0)
            try await target.publish([again], replacing: [])
            #expect(try await log.databases() == ["db", "back"])
        }
    }

    @Test("a second opening is seen as another user", arguments: [LogDriver.sqlite])
    func users(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let target = try #require(log as? any RestorableLog)
            #expect(try await !target.hasOtherUsers())
            let other = try openAnother()
            #expect(try await target.hasOtherUsers())
            await other.close()
            #expect(try await !target.hasOtherUsers())
        }
    }
}
