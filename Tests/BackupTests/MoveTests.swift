import CRDT
import Foundation
import OperationLog
import TestSupport
import Testing

@testable import Backup

@Suite("Moving databases to another log", .timeLimit(.minutes(4)))
struct MoveTests {
    private static let place = NewPlace(log: "the other log", address: nil)

    @Test(
        "a database moves while it is written: all that was acknowledged is there, under the same positions",
        arguments: [false, true])
    func underWrites(isTruncated: Bool) async throws {
        try await Place.use { place in
            let history = try await Self.history(place, isTruncated: isTruncated)
            let target = try place.log("target")
            async let writing = history.write()
            // The move ends after some of the writes, or after all of them: both are right.
            let moved = try await LogMover(from: history.log, to: target, place: Self.place).move()
            let acknowledged = try await writing
            let end = try await history.log.head(of: "app")
            #expect(moved.map(\.database) == ["app"])
            #expect(moved.map(\.end) == [end])
            #expect(end.offset.rawValue == UInt64(history.begun + acknowledged))
            try await history.expect(target, end)
            // The rest is taken there, at the offsets that follow; what was sent twice counts once.
            #expect(
                try await target.append([history.rest[0]], to: "app").first
                    == history.outcome(0, acknowledged))
            #expect(
                try await target.append(Array(history.rest[acknowledged...]), to: "app").last
                    == .appended(offset: history.last))
            await target.close()
            await history.log.close()
        }
    }

    @Test(
        "a move that is killed before any of its changes goes on when begun again; no two logs take writes",
        arguments: [false, true])
    func killed(isTruncated: Bool) async throws {
        try await Place.use { place in
            var (changes, isOver) = (0, true)
            while isOver {
                let here = Place(folder: place.folder.appendingPathComponent("\(changes)"))
                try FileManager.default.createDirectory(at: here.folder, withIntermediateDirectories: true)
                let history = try await Self.history(here, isTruncated: isTruncated)
                try await history.log.createDatabase("empty")
                let target = try here.log("target")
                let life = InterruptedLog.Life(changes: changes)
                let mover = LogMover(
                    from: InterruptedLog(history.log, life), to: InterruptedLog(target, life),
                    place: Self.place)
                _ = try? await mover.move()
                isOver = life.isOver
                for database in try await target.databases() {
                    #expect(
                        try await history.log.newPlace(of: database)?.log == Self.place.log,
                        "after \(changes) changes")
                }
                // It is taken, unless the log is closed.
                _ = try? await history.log.append([history.rest[0]], to: "app")
                let end = try await history.log.head(of: "app")
                let moved = try await LogMover(from: history.log, to: target, place: Self.place).move()
                #expect(moved.map(\.database) == ["app", "empty"], "after \(changes) changes")
                #expect(moved.first?.end == end, "after \(changes) changes")
                try await history.expect(target, end)
                await target.close()
                await history.log.close()
                changes += 1
            }
            // At least two drafts, operations, two closings and the names.
            #expect(changes > 6)
        }
    }

    @Test("a move that was taken back leaves nothing, and one that is done is not taken back")
    func cancelled() async throws {
        try await Place.use { place in
            let history = try await Self.history(place, isTruncated: false)
            let target = try place.log("target")
            let mover = LogMover(from: history.log, to: target, place: Self.place)
            #expect(try await mover.copy().map(\.database) == ["app"])
            #expect(try await target.databases().isEmpty)
            let draft = try #require(try await target.number(of: RestoreDraft.moving("app")))
            try await history.log.close("app", movedTo: Self.place.with(number: draft), from: nil)
            _ = try await mover.cancel()
            #expect(try await target.drafts().isEmpty)
            #expect(
                try await history.log.append([history.rest[0]], to: "app")
                    == [.appended(offset: Offset(UInt64(history.begun + 1)))])
            _ = try await mover.move()
            for isLost in [false, true] {
                #expect(try await code { _ = try await mover.cancel(isLost: isLost) } == .targetNotEmpty)
            }
            #expect(try await history.log.newPlace(of: "app")?.log == Self.place.log)
            await target.close()
            await history.log.close()
        }
    }

    @Test("a database moves there and back, and one to a log with others; strangers of its name stay")
    func there() async throws {
        try await Place.use { place in
            let history = try await Self.history(place, isTruncated: true)
            let target = try place.log("target")
            try await target.createDatabase("another")
            let whole = LogMover(from: history.log, to: target, place: Self.place)
            #expect(try await code { _ = try await whole.move() } == .targetNotEmpty)
            let one = LogMover(from: history.log, to: target, database: "app", place: Self.place)
            _ = try await one.move()
            #expect(try await target.databases() == ["another", "app"])
            #expect(try await target.append([history.rest[0]], to: "app").count == 1)
            let end = try await target.head(of: "app")
            let home = NewPlace(log: "the first log", address: nil)
            _ = try await LogMover(from: target, to: history.log, database: "app", place: home).move()
            try await history.expect(history.log, end)
            #expect(
                try await history.log.append([history.rest[1]], to: "app") == [
                    .appended(offset: end.offset.next)
                ])
            #expect(try await target.newPlace(of: "app")?.log == home.log)
            let unknown = LogMover(from: history.log, to: target, database: "none", place: Self.place)
            #expect(try await code { _ = try await unknown.move() } == .unknownDatabase)
            await target.close()
            await history.log.close()
        }
    }

    @Test("a move that is begun again after its goal has moved on replaces nothing there, nor a stranger")
    func movedOn() async throws {
        try await Place.use { place in
            let history = try await Self.history(place, isTruncated: false)
            let (second, third) = (try place.log("second"), try place.log("third"))
            let first = LogMover(from: history.log, to: second, place: Self.place)
            _ = try await first.move()
            #expect(try await second.append([history.rest[0]], to: "app").count == 1)
            let next = NewPlace(log: "the third log", address: nil)
            _ = try await LogMover(from: second, to: third, place: next).move()
            let end = try await second.head(of: "app")
            #expect(try await code { _ = try await first.move() } == .targetNotEmpty)
            #expect(try await second.newPlace(of: "app")?.log == next.log)
            #expect(try await second.head(of: "app") == end)

            let stranger = try place.log("stranger")
            try await stranger.createDatabase("app")
            try await stranger.close("app", movedTo: next, from: nil)
            let other = LogMover(from: third, to: stranger, place: Self.place)
            #expect(try await code { _ = try await other.move() } == .targetNotEmpty)
            #expect(try await stranger.newPlace(of: "app") == next)
            #expect(try await third.newPlace(of: "app") == nil)
            for log in [second, third, stranger, history.log] { await log.close() }
        }
    }

    @Test("a move that is begun again takes along the databases that were made here since")
    func madeSince() async throws {
        try await Place.use { place in
            let history = try await Self.history(place, isTruncated: false)
            let second = try place.log("second")
            let mover = LogMover(from: history.log, to: second, place: Self.place)
            let before = try await mover.move().map(\.database)
            try await history.log.createDatabase("late")
            let again = try await mover.move()
            #expect(Set(again.map(\.database)) == Set(before + ["late"]))
            #expect(try await second.databaseExists("late"))
            #expect(try await history.log.newPlace(of: "late")?.log == Self.place.log)
            #expect(try await mover.move().count == again.count)
            for log in [second, history.log] { await log.close() }
        }
    }

    // MARK: A history

    /// A log with a part of a history, whose rest is still to be written.
    struct History {
        let log: SQLiteOperationLog
        /// The operations that the log has.
        let begun: Int
        let rest: [AppendRequest]

        /// The offset of the last operation of all.
        var last: Offset { Offset(UInt64(begun + rest.count)) }

        /// Writes the rest but one until the log refuses.
        /// - Returns: the number of acknowledged operations.
        func write() async throws -> Int {
            for (number, request) in rest.dropLast().enumerated() {
                do {
                    let outcome = try await log.append([request], to: "app")
                    #expect(outcome == [.appended(offset: Offset(UInt64(begun + number + 1)))])
                } catch let error as OperationLogError where error.code == .moved {
                    return number
                }
            }
            return rest.count - 1
        }

        /// The outcome of one of the rest that is sent once more, or for the first time.
        func outcome(_ number: Int, _ acknowledged: Int) -> AppendOutcome {
            guard number < acknowledged else { return .appended(offset: Offset(UInt64(begun + number + 1))) }
            let actor = rest[number].record.actor
            let same = rest[..<acknowledged].last { $0.record.actor == actor }
            return .duplicate(through: same?.record.sequence ?? 0)
        }

        /// The other log ends there too, with the same operations and the same snapshot.
        func expect(_ other: any OperationLog, _ end: LogPosition) async throws {
            #expect(try await other.head(of: "app") == end)
            let cut = try await other.truncation(of: "app")
            #expect(try await other.snapshot(of: "app")?.position == (cut.offset == 0 ? nil : cut))
            let entries = try await other.read("app", after: cut.offset)
            #expect(try await entries == log.read("app", after: cut.offset))
            #expect(entries.last?.offset == (end == cut ? nil : end.offset))
        }
    }

    static func history(_ place: Place, isTruncated: Bool) async throws -> History {
        var random = SplitMix64(seed: 11)
        let origin = try place.log("origin")
        let author = try await Author(origin, folder: place.folder)
        try await author.writeSome(30, &random)
        if isTruncated { try await author.truncate() }
        try await author.writeSome(10, &random)
        let begun = author.digests.count - 1
        let log = try place.log("source")
        _ = try await LogMover(from: origin, to: log, place: Self.place).copy()
        try await log.publish([RestoreDraft.moving("app")], replacing: [])
        try await author.writeSome(60, &random)
        let rest = try await origin.read("app", after: Offset(UInt64(begun))).map { entry in
            AppendRequest(
                record: entry.record, authorKey: "key of \(entry.actor.rawValue)",
                touches: Touch.all(of: try Operation(decoding: entry.bytes)))
        }
        try author.close()
        await origin.close()
        return History(log: log, begun: begun, rest: rest)
    }
}
