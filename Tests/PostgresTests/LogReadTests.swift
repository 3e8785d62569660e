import CRDT
import OperationLog
import Testing

@testable import Postgres

@Suite(
    "The log in PostgreSQL: round trips of reads",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct LogReadTests {
    private static let actors = [1, 2, 3].map { ActorID($0) }

    private static func use(_ body: (PostgresOperationLog, Connection) async throws -> Void) async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            // Another one has the first number.
            for name in ["other", "db"] { try await log.createDatabase(DatabaseID(name)) }
            for sequence in 1...4 {
                _ = try await log.append([record(1, SequenceNumber(UInt64(sequence)))], to: "db")
            }
            _ = try await log.append([record(2, 1)], to: "db")
            try await body(log, try Connection(url: url))
            await log.close()
        }
    }

    private static func offsets(
        _ connection: Connection, after offset: Offset, limit: ReadLimit = .standard
    ) throws -> [UInt64] {
        try PostgresLogReader.entries(connection, "db", after: offset, limit: limit).map(\.offset.rawValue)
    }

    @Test("entries and frontiers take one each where the database's number is known")
    func known() async throws {
        try await Self.use { _, connection in
            for turn in 0..<2 {
                let before = connection.roundTrips
                #expect(try Self.offsets(connection, after: 2) == [3, 4, 5])
                #expect(try Self.offsets(connection, after: 0, limit: ReadLimit(operations: 2)) == [1, 2])
                #expect(try Self.offsets(connection, after: 5) == [])
                #expect(try Self.offsets(connection, after: 0, limit: ReadLimit(operations: .max)).count == 5)
                let frontier = try PostgresLogReader.frontier(connection, "db", Self.actors)
                #expect(frontier.mapValues(\.sequence) == [ActorID(1): 4, ActorID(2): 1])
                #expect(turn == 0 || connection.roundTrips - before == 5)
            }
            #expect(throws: OperationLogError.self) { try Self.offsets(connection, after: 6) }
        }
    }

    @Test("a number that is not the database's any more is found out")
    func stale() async throws {
        try await Self.use { _, connection in
            for wrong in [1, 77] as [Int64] {
                connection.knownLogs["db"] = wrong
                #expect(try Self.offsets(connection, after: 2) == [3, 4, 5])
                connection.knownLogs["db"] = wrong
                let frontier = try PostgresLogReader.frontier(connection, "db", Self.actors)
                #expect(frontier.mapValues(\.sequence) == [ActorID(1): 4, ActorID(2): 1])
            }
        }
    }
}
