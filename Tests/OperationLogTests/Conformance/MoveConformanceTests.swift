import CRDT
import Testing

@testable import OperationLog
@testable import Postgres

@Suite("Log contract: databases that were moved to another log")
struct MoveConformanceTests {
    private static let place = NewPlace(log: "postgres://it's \\ there/db", address: "https://new.example")

    @Test(
        "a closed database refuses every writer, names the new address, and is read on",
        arguments: LogDriver.allCases)
    func closed(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let source = try #require(log as? any RestorableLog)
            let other = try openAnother()
            _ = try await log.append(requests(1, 1...3), to: "db")
            _ = try await other.append(requests(2, 1...3), to: "db")
            #expect(try await source.newPlace(of: "db") == nil)
            try await source.close("db", movedTo: Self.place, from: nil)
            for writer in [log, other] {
                let error = await #expect(throws: OperationLogError.self) {
                    try await writer.append(requests(1, 4...4), to: "db")
                }
                #expect(error?.code == .moved)
                #expect(error?.message == "the database was moved to https://new.example")
                #expect(try await readAll(writer).map(\.offset) == [1, 2, 3, 4, 5, 6])
                let restorable = try #require(writer as? any RestorableLog)
                #expect(try await restorable.newPlace(of: "db") == Self.place)
            }
            // Reads and housekeeping go on, and so does the rest of what the writers had begun.
            let head = try await log.head(of: "db")
            let draft = try await log.beginSnapshot(of: "db", at: head)
            try await log.add([1], to: draft, in: "db")
            #expect(try await log.finish(draft, in: "db").position == head)
            try await source.reopen("db", from: Self.place)
            #expect(try await other.append(requests(1, 4...4), to: "db") == [.appended(offset: 7)])
            #expect(try await log.append(requests(1, 5...5), to: "db") == [.appended(offset: 8)])
            await other.close()
        }
    }

    @Test("the other databases of a refused group are appended", arguments: LogDriver.allCases)
    func others(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let source = try #require(log as? any RestorableLog)
            try await log.createDatabase("stays")
            _ = try await log.append(requests(1, 1...1), to: "db")
            _ = try await log.append(requests(1, 1...1), to: "stays")
            try await source.close("db", movedTo: Self.place, from: nil)
            // Whatever comes while a group is under way makes the next one.
            let refused = try await withThrowingTaskGroup(of: Int.self) { group in
                for actor in 2...40 as ClosedRange<UInt64> {
                    group.addTask {
                        try await code { _ = try await log.append(requests(actor, 1...1), to: "db") }
                            == .moved
                            ? 1 : 0
                    }
                    group.addTask {
                        let outcomes = try await log.append(requests(actor, 1...2), to: "stays")
                        guard case .appended = outcomes.last else { return 1_000 }
                        return 0
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(refused == 39)
            #expect(try await log.head(of: "db").offset == 1)
            #expect(try await log.head(of: "stays").offset == 79)
        }
    }

    @Test(
        "a place is changed by those who know it: another log's is refused, and so is one that was changed",
        arguments: LogDriver.allCases)
    func twice(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let source = try #require(log as? any RestorableLog)
            let other = try #require(try openAnother() as? any RestorableLog)
            try await source.close("db", movedTo: Self.place, from: nil)
            let numbered = NewPlace(log: Self.place.log, address: nil, number: 7)
            #expect(
                try await code { try await other.close("db", movedTo: numbered, from: nil) } == .contended)
            try await other.close("db", movedTo: numbered, from: Self.place)
            #expect(try await source.newPlace(of: "db") == numbered)
            let elsewhere = NewPlace(log: "sqlite:/else where", address: "https://new.example", number: 8)
            #expect(try await code { try await source.close("db", movedTo: elsewhere, from: nil) } == .moved)
            #expect(try await code { try await source.reopen("db", from: Self.place) } == .contended)
            #expect(try await source.newPlace(of: "db") == numbered)
            try await source.reopen("db", from: numbered)
            #expect(try await code { try await other.reopen("db", from: numbered) } == .contended)
            #expect(try await other.newPlace(of: "db") == nil)
            try await source.close("db", movedTo: elsewhere, from: nil)
            #expect(try await other.newPlace(of: "db") == elsewhere)
            #expect(
                try await code { try await source.close("none", movedTo: numbered, from: nil) }
                    == .unknownDatabase)
            await other.close()
        }
    }

    @Test(
        "names change all at once, for those who know the number, and never to a name that is taken",
        arguments: LogDriver.allCases)
    func names(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let target = try #require(log as? any RestorableLog)
            let before = try #require(try await target.number(of: "db"))
            let draft = try await target.beginRestore(of: "db", after: 0, hash: 0, as: .random())
            let number = try #require(try await target.number(of: draft))
            #expect(number != before)
            let removal = Renaming("db", number: before, to: nil)
            for (second, code) in [
                (Renaming(draft, number: before, to: "db"), OperationLogErrorCode.contended),
                (Renaming(draft, number: number, to: draft), .invalidRequest),
                (Renaming("none", number: number, to: "db"), .contended),
            ] {
                let refusal = await #expect(throws: OperationLogError.self) {
                    try await target.rename([removal, second])
                }
                #expect(refusal?.code == code)
                #expect(try await target.number(of: "db") == before)
                #expect(try await target.drafts() == [draft])
            }
            try await target.rename([removal, Renaming(draft, number: number, to: "db")])
            #expect(try await target.number(of: "db") == number)
            #expect(try await target.drafts().isEmpty)
            #expect(try await log.append(requests(1, 1...1), to: "db") == [.appended(offset: 1)])
        }
    }

    @Test("one opening at a time makes drafts, until it is closed", arguments: LogDriver.allCases)
    func reserved(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let one = try #require(log as? any RestorableLog)
            let other = try #require(try openAnother() as? any RestorableLog)
            try await other.reserveDrafts()
            for opening in [one, other] {
                #expect(try await code { try await opening.reserveDrafts() } == .contended)
            }
            await other.releaseDrafts()
            try await one.reserveDrafts()
            #expect(try await code { try await other.reserveDrafts() } == .contended)
            await one.releaseDrafts()
            try await other.reserveDrafts()
            await other.close()
            try await one.reserveDrafts()
            await one.releaseDrafts()
        }
    }

    @Test("a draft that keeps the identity has the positions of the log", arguments: LogDriver.allCases)
    func identity(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let target = try #require(log as? any RestorableLog)
            _ = try await log.append(requests(1, 1...5), to: "db")
            let head = try await log.head(of: "db")
            let draft = try await target.beginRestore(of: "back", after: 0, hash: 0, as: head.logID)
            _ = try await log.append(requests(1, 1...5), to: draft)
            #expect(try await log.head(of: draft) == head)
            #expect(try await log.position(at: 3, in: draft) == log.position(at: 3, in: "db"))
        }
    }
}
