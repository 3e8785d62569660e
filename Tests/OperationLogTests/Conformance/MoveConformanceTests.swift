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
            try await source.close("db", movedTo: Self.place)
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
            try await source.reopen("db")
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
            try await source.close("db", movedTo: Self.place)
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
        "a move to another place is refused, and one to the same place is the same",
        arguments: LogDriver.allCases)
    func twice(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let source = try #require(log as? any RestorableLog)
            try await source.close("db", movedTo: Self.place)
            let same = NewPlace(log: Self.place.log, address: nil)
            try await source.close("db", movedTo: same)
            #expect(try await source.newPlace(of: "db") == same)
            let elsewhere = NewPlace(log: "sqlite:/elsewhere", address: nil)
            #expect(try await code { try await source.close("db", movedTo: elsewhere) } == .moved)
            try await source.reopen("db")
            #expect(try await source.newPlace(of: "db") == nil)
            try await source.close("db", movedTo: elsewhere)
            #expect(try await code { try await source.close("none", movedTo: same) } == .unknownDatabase)
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
