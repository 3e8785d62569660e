import CRDT
import Foundation
import OperationLog
import Testing

@testable import Backup

@Suite("A mover beside others", .timeLimit(.minutes(6)))
struct MoverBesideOthersTests {
    private static let second = NewPlace(log: "the second log", address: nil)
    private static let third = NewPlace(log: "the third log", address: nil)

    /// The work of others while a mover stands still.
    enum Meanwhile: CaseIterable {
        /// The move is taken back, and the former log is written.
        case cancelled
        /// Another mover ends the move, and the other log is written.
        case moved
        /// The same, and that log's database is moved on without a write.
        case movedOn

        func work(_ logs: Logs) async {
            let mover = logs.mover(logs.history.log, logs.second)
            switch self {
            case .cancelled:
                _ = try? await mover.cancel()
                _ = try? await logs.history.log.append([logs.history.rest[0]], to: "app")
            case .moved:
                _ = try? await mover.move()
                _ = try? await logs.second.append([logs.history.rest[0]], to: "app")
            case .movedOn:
                _ = try? await mover.move()
                let next = LogMover(
                    from: logs.second, to: logs.third, place: MoverBesideOthersTests.third)
                _ = try? await next.move()
            }
        }
    }

    /// The former log, the one that the mover moves to, and a third one.
    struct Logs: Sendable {
        let history: MoveTests.History
        let second: SQLiteOperationLog
        let third: SQLiteOperationLog

        func mover(_ source: any RestorableLog, _ target: any RestorableLog) -> LogMover {
            LogMover(from: source, to: target, place: MoverBesideOthersTests.second)
        }

        /// The logs that take writes.
        func open() async throws -> [SQLiteOperationLog] {
            var open: [SQLiteOperationLog] = []
            for log in [history.log, second, third] where try await log.databaseExists("app") {
                if try await log.newPlace(of: "app") == nil { open.append(log) }
            }
            return open
        }

        func close() async { for log in [history.log, second, third] { await log.close() } }
    }

    @Test(
        "a mover that stood still before any change while others worked loses no write and opens no log",
        arguments: Meanwhile.allCases, [false, true])
    func stoodStill(meanwhile: Meanwhile, cameFromThere: Bool) async throws {
        try await Place.use { place in
            var (changes, isOver) = (0, true)
            while isOver {
                let logs = try await Self.logs(place, "\(changes)", cameFromThere: cameFromThere)
                let life = InterruptedLog.Life(changes: changes) { await meanwhile.work(logs) }
                let mover = logs.mover(
                    InterruptedLog(logs.history.log, life), InterruptedLog(logs.second, life))
                _ = try? await mover.move()
                isOver = life.isOver
                #expect(try await logs.open().count <= 1, "after \(changes) changes")
                // A person looks at the logs, and knows that none shows the database if none does.
                let again = logs.mover(logs.history.log, logs.second)
                _ = try? await again.cancel(isLost: true)
                _ = try? await again.move()
                let open = try await logs.open()
                #expect(open.count == 1, "after \(changes) changes")
                // Whatever any of the logs has is in the one that is open.
                let last = try #require(open.first)
                for log in [logs.history.log, logs.second, logs.third]
                where try await log.databaseExists("app") {
                    let known = try await log.head(of: "app")
                    #expect(
                        try await last.position(at: known.offset, in: "app") == known,
                        "after \(changes) changes")
                }
                await logs.close()
                changes += 1
            }
            #expect(changes > 4)
        }
    }

    @Test(
        "a database that went round through three logs without a write is moved by none of the old commands")
    func round() async throws {
        try await Place.use { place in
            let logs = try await Self.logs(place, "round", cameFromThere: false)
            let home = NewPlace(log: "the first log", address: nil)
            let there = logs.mover(logs.history.log, logs.second)
            let onwards = LogMover(from: logs.second, to: logs.third, place: Self.third)
            _ = try await there.move()
            _ = try await onwards.move()
            #expect(try await code { _ = try await there.move() } == .targetNotEmpty)
            #expect(try await code { _ = try await there.cancel(isLost: true) } == .targetNotEmpty)
            #expect(try await logs.open().map { ObjectIdentifier($0) } == [ObjectIdentifier(logs.third)])
            _ = try await LogMover(from: logs.third, to: logs.history.log, place: home).move()
            #expect(try await code { _ = try await onwards.move() } == .targetNotEmpty)
            #expect(try await code { _ = try await onwards.cancel() } == .targetNotEmpty)
            #expect(
                try await logs.open().map { ObjectIdentifier($0) } == [ObjectIdentifier(logs.history.log)])
            await logs.close()
        }
    }

    @Test("a move whose copy is gone is refused until a person says that no log shows the database")
    func lost() async throws {
        try await Place.use { place in
            let logs = try await Self.logs(place, "lost", cameFromThere: false)
            let mover = logs.mover(logs.history.log, logs.second)
            _ = try await mover.copy()
            let number = try #require(try await logs.second.number(of: RestoreDraft.moving("app")))
            try await logs.history.log.close("app", movedTo: Self.second.with(number: number), from: nil)
            try await logs.second.remove([RestoreDraft.moving("app")])
            #expect(try await code { _ = try await mover.move() } == .moveLost)
            #expect(try await code { _ = try await mover.cancel() } == .moveLost)
            _ = try await mover.cancel(isLost: true)
            #expect(try await logs.history.log.newPlace(of: "app") == nil)
            _ = try await mover.move()
            #expect(try await logs.open().map { ObjectIdentifier($0) } == [ObjectIdentifier(logs.second)])
            await logs.close()
        }
    }

    @Test("a restore beside an interrupted move leaves its copy, and one beside a mover is refused")
    func restore() async throws {
        try await Place.use { place in
            let logs = try await Self.logs(place, "restore", cameFromThere: false)
            let mover = logs.mover(logs.history.log, logs.second)
            _ = try await mover.copy()
            try await place.backUp(logs.history.log)
            try await logs.second.reserveDrafts()
            let refusal = await #expect(throws: OperationLogError.self) {
                try await place.restore(into: logs.second)
            }
            #expect(refusal?.code == .contended)
            let refused = await #expect(throws: OperationLogError.self) { try await mover.move() }
            #expect(refused?.code == .contended)
            await logs.second.releaseDrafts()
            _ = try await place.restore(into: logs.second)
            #expect(try await logs.second.drafts() == [RestoreDraft.moving("app")])
            await logs.close()
        }
    }

    private static func logs(
        _ place: Place, _ name: String, cameFromThere: Bool
    ) async throws -> Logs {
        let here = Place(folder: place.folder.appendingPathComponent(name))
        try FileManager.default.createDirectory(at: here.folder, withIntermediateDirectories: true)
        let logs = Logs(
            history: try await MoveTests.history(here, isTruncated: false), second: try here.log("second"),
            third: try here.log("third"))
        let home = NewPlace(log: "the first log", address: nil)
        for _ in 0..<(cameFromThere ? 1 : 0) {
            _ = try await logs.mover(logs.history.log, logs.second).move()
            _ = try await LogMover(from: logs.second, to: logs.history.log, place: home).move()
        }
        return logs
    }
}
