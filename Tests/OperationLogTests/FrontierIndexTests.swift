import CRDT
import Foundation
import GRDB
import Testing

@testable import OperationLog

/// Updates of the table of actors are deferred (`FrontierIndex`): nobody may notice.
@Suite("SQLite log: where actors stand, of whom the table is behind", .timeLimit(.minutes(2)))
struct FrontierIndexTests {
    /// A log with five operations of actor 1 and two of actor 2, of which only the first ones are settled,
    /// and two others that have it open.
    private static func use(
        _ body: (
            _ log: SQLiteOperationLog, _ second: SQLiteOperationLog, _ third: SQLiteOperationLog,
            _ path: String
        ) async throws -> Void
    ) async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            for sequence in 1...4 as ClosedRange<UInt64> {
                _ = try await log.append([request(1, SequenceNumber(sequence))], to: "db")
            }
            _ = try await log.append([request(2, 1)], to: "db")
            _ = try await log.append([request(2, 2), request(1, 5)], to: "db")
            let waiting = try await stored(log).map { [$0.actor, $0.sequence] }
            #expect(waiting == [[1, 1], [2, 1]], "nothing waits: this shows nothing")
            let (second, third) = (try SQLiteOperationLog(path: path), try SQLiteOperationLog(path: path))
            try await body(log, second, third, path)
            for log in [log, second, third] { await log.close() }
        }
    }

    private struct Stored: Equatable {
        var actor: UInt64
        var key: String
        var sequence: UInt64
        var timestamp: UInt64
        var hash: UInt64
    }

    /// The table of actors.
    private static func stored(_ log: SQLiteOperationLog) async throws -> [Stored] {
        try await log.reading { db in
            try Row.fetchAll(db, sql: "SELECT actor, key, sequence, timestamp, hash FROM actors ORDER BY 1")
                .map { row in
                    Stored(
                        actor: LogReader.unsigned(row, 0), key: row[1], sequence: LogReader.unsigned(row, 2),
                        timestamp: LogReader.unsigned(row, 3), hash: LogReader.unsigned(row, 4))
                }
        }
    }

    private static func flushed(_ log: SQLiteOperationLog) async throws -> UInt64 {
        try await log.reading { try LogReader.head($0, database: "db").flushed.rawValue }
    }

    @Test("a frontier counts it, for whoever asks")
    func frontier() async throws {
        try await Self.use { log, second, _, _ in
            for opening in [log, second] {
                let frontier = try await opening.frontier(of: [1, 2, 3].map { ActorID($0) }, in: "db")
                #expect(frontier.mapValues(\.sequence) == [ActorID(1): 5, ActorID(2): 2])
                #expect(frontier[ActorID(1)]?.timestamp == 1_005)
                #expect(frontier[ActorID(1)]?.hash == ChainHash.content(Array("1/5/".utf8)))
                #expect(frontier.mapValues(\.authorKey) == [ActorID(1): "key", ActorID(2): "key"])
            }
        }
    }

    @Test("others decide by it, and the first by what they have appended since")
    func severalWriters() async throws {
        try await Self.use { log, second, third, _ in
            #expect(try await second.append([request(1, 5)], to: "db") == [.duplicate(through: 5)])
            let other = try await second.append([request(1, 5, text: "other")], to: "db")
            #expect(other == [.conflict(.differentContent(sequence: 5))])
            #expect(try await second.append([request(2, 4)], to: "db") == [.gap(expected: 3)])
            let foreign = try await second.append([request(2, 3, key: "another")], to: "db")
            #expect(foreign == [.conflict(.foreignActor)])
            #expect(try await second.append([request(1, 6)], to: "db") == [.appended(offset: 8)])
            #expect(try await log.append([request(1, 6)], to: "db") == [.duplicate(through: 6)])
            #expect(try await log.append([request(1, 7)], to: "db") == [.appended(offset: 9)])
            #expect(try await second.append([request(3, 1)], to: "db") == [.appended(offset: 10)])
            #expect(try await log.append([request(3, 1)], to: "db") == [.duplicate(through: 1)])
            #expect(try await third.append([request(3, 2), request(1, 8)], to: "db").count == 2)
            #expect(try await second.append([request(1, 8)], to: "db") == [.duplicate(through: 8)])
            #expect(try await third.append([request(1, 7)], to: "db") == [.duplicate(through: 8)])
            #expect(try await log.append([request(3, 4)], to: "db") == [.gap(expected: 3)])
            #expect(try await readAll(log).map(\.offset) == Array(1...12))
        }
    }

    @Test("many writers by turns, some of whom miss many turns, agree with a fold of the log")
    func turns() async throws {
        try await withTemporaryPath { path in
            let logs = try (0..<4).map { _ in try SQLiteOperationLog(path: path) }
            try await logs[0].createDatabase("db")
            var generator = SystemRandomNumberGenerator()
            var next: [UInt64: UInt64] = [:]
            for _ in 0..<400 {
                let log = logs[Int.random(in: 0..<4, using: &generator) % Int.random(in: 1...4)]
                let actor = UInt64.random(in: 1...6)
                let first = next[actor, default: 1]
                let count = UInt64.random(in: 1...30)
                let outcomes = try await log.append(requests(actor, first...first + count - 1), to: "db")
                for outcome in outcomes {
                    guard case .appended = outcome else {
                        Issue.record("\(actor): \(outcome)")
                        return
                    }
                }
                next[actor] = first + count
            }
            let last = next.mapValues { $0 - 1 }
            let actors = last.keys.map { ActorID($0) }
            for log in logs {
                let frontier = try await log.frontier(of: actors, in: "db")
                #expect(frontier.count == last.count)
                for (actor, entry) in frontier { #expect(entry.sequence.rawValue == last[actor.rawValue]) }
            }
            #expect(try await readAll(logs[0], step: 500).count == Int(last.values.reduce(0, +)))
            for log in logs { await log.close() }
        }
    }

    @Test(
        "there is never more of it than a bound, and what is settled is what the log says",
        arguments: [1, 7, 600])
    func bound(each: UInt64) async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            var flushed: Set<UInt64> = []
            for round in 0..<UInt64(LogLimits.unflushedOperations) * 3 / each + 1 {
                let first = round / 3 * each + 1
                _ = try await log.append(requests(round % 3 + 1, first...first + each - 1), to: "db")
                let (place, head) = (
                    try await Self.flushed(log), try await log.head(of: "db").offset.rawValue
                )
                #expect(head - place < UInt64(LogLimits.unflushedOperations))
                flushed.insert(place)
                guard place == head else { continue }
                var lasts: [ActorID: LogEntry] = [:]
                for entry in try await readAll(log, step: 1_000) { lasts[entry.actor] = entry }
                let expected = lasts.values.map {
                    Stored(
                        actor: $0.actor.rawValue, key: "key", sequence: $0.sequence.rawValue,
                        timestamp: $0.timestamp,
                        hash: ChainHash.content($0.bytes))
                }
                #expect(try await Self.stored(log) == expected.sorted { $0.actor < $1.actor })
            }
            #expect(flushed.count >= 3, "nothing was settled")
            await log.close()
        }
    }

    @Test("large operations count by their bytes")
    func boundOfBytes() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            var flushed: Set<UInt64> = []
            for sequence in 1...20 as ClosedRange<UInt64> {
                let size = LogLimits.unflushedBytes / 5
                _ = try await log.append([request(1, SequenceNumber(sequence), size: size)], to: "db")
                flushed.insert(try await Self.flushed(log))
            }
            #expect(flushed == [0, 5, 10, 15, 20])
            await log.close()
        }
    }

    @Test("a group that was rolled back leaves nothing behind")
    func rolledBack() async throws {
        try await Self.use { log, second, _, path in
            let trigger =
                "CREATE TRIGGER refusing BEFORE UPDATE ON databases BEGIN SELECT raise(FAIL, 'no'); END"
            try edit(path) { try $0.execute(sql: trigger) }
            for opening in [log, second] {
                let failure = try await code {
                    _ = try await opening.append([request(1, 6), request(3, 1)], to: "db")
                }
                #expect(failure == .storageFailed)
            }
            try edit(path) { try $0.execute(sql: "DROP TRIGGER refusing") }
            for (opening, round) in zip([log, second], 1...2 as ClosedRange<UInt64>) {
                #expect(
                    try await opening.append([request(1, SequenceNumber(round + 6))], to: "db")
                        == [.gap(expected: SequenceNumber(round + 5))]
                )
                let both = [request(1, SequenceNumber(round + 5)), request(3, SequenceNumber(round))]
                let offsets = [2 * round + 6, 2 * round + 7]
                #expect(
                    try await opening.append(both, to: "db") == offsets.map { .appended(offset: Offset($0)) })
            }
        }
    }

    @Test("a truncation settles it before it goes, and who knew of less begins behind it")
    func truncation() async throws {
        try await Self.use { log, second, third, _ in
            // Knows of what is removed then.
            #expect(try await second.append([request(1, 5)], to: "db") == [.duplicate(through: 5)])
            #expect(try await log.append([request(1, 6), request(3, 1)], to: "db").count == 2)
            let draft = try await log.beginSnapshot(of: "db", at: try await log.head(of: "db"))
            try await log.add([1], to: draft, in: "db")
            _ = try await log.finish(draft, in: "db")
            try await log.truncate("db", through: 8, keepingHashesAfter: 0)
            #expect(
                try await Self.stored(log).map { [$0.actor, $0.sequence] } == [[1, 6], [2, 2], [3, 1]])
            #expect(try await third.append([request(1, 4)], to: "db") == [.duplicate(through: 6)])
            #expect(try await third.append([request(2, 3)], to: "db") == [.appended(offset: 10)])
            for opening in [log, second] {
                #expect(try await opening.append([request(2, 3)], to: "db") == [.duplicate(through: 3)])
                #expect(try await opening.append([request(1, 6)], to: "db") == [.duplicate(through: 6)])
                #expect(try await opening.append([request(2, 5)], to: "db") == [.gap(expected: 4)])
            }
            #expect(try await second.append([request(1, 7)], to: "db") == [.appended(offset: 11)])
        }
    }

    @Test("what is known of another history does not count")
    func otherHistory() async throws {
        try await Self.use { log, _, _, _ in
            try await log.reading { db in
                let head = try LogReader.head(db, database: "db")
                let known = try KnownFrontier.reading(db, "db", head, since: nil)
                let hash = known.hash
                var strange = known
                let entry = FrontierEntry(sequence: 9, timestamp: 9, hash: 9, authorKey: "key")
                strange.advance(ActorID(9), to: KnownFrontier.Registration(key: "key", frontier: entry))
                for offset in [7, 5] as [Offset] {
                    strange.appended(bytes: 0, through: offset, hash: ~hash)
                    let found = try KnownFrontier.reading(db, "db", head, since: strange)
                    #expect(found.hash == hash && found.offset == 7)
                    let actors = [1, 9].map { ActorID($0) }
                    let entries = try found.entries(of: actors, db, head)
                    #expect(entries.mapValues(\.sequence) == [actors[0]: 5])
                }
            }
        }
    }

    @Test("a damaged operation that it would be read from is named, and nothing is appended behind it")
    func damage() async throws {
        try await Self.use { log, second, _, path in
            try edit(path) { try $0.execute(sql: "UPDATE operations SET actor = 2 WHERE sequence = 4") }
            func code(_ body: () async throws -> Void) async throws -> OperationLogError? {
                do { try await body() } catch let error as OperationLogError { return error }
                return nil
            }
            let append = try await code { _ = try await second.append([request(2, 3)], to: "db") }
            #expect(append?.code == .corrupt)
            #expect(append?.offset == 4)
            let frontier = try await code { _ = try await second.frontier(of: [ActorID(1)], in: "db") }
            #expect(frontier?.code == .corrupt)
            #expect(second.status.refusal == nil)
            try await second.createDatabase("healthy")
            #expect(try await second.append([request(1, 1)], to: "healthy") == [.appended(offset: 1)])
        }
    }

    @Test("a damaged page of them is no failed commit: nothing is poisoned")
    func damagedPage() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            _ = try await log.append([request(1, 1)], to: "db")
            _ = try await log.append(requests(1, 2...600, size: 300), to: "db")
            #expect(try await Self.flushed(log) == 0, "nothing waits: this shows nothing")
            await log.close()
            let url = URL(fileURLWithPath: path)
            var file = try Data(contentsOf: url)
            // The first place may be what is left of it where the tree's root was a leaf.
            let place = try #require(file.range(of: Data("1/20/".utf8), options: .backwards)).lowerBound
            let page = place / 4_096 * 4_096
            file.replaceSubrange(page..<page + 8, with: Data(repeating: 0xFF, count: 8))
            try file.write(to: url)
            let opened = try SQLiteOperationLog(path: path)
            #expect(try await code { _ = try await opened.append([request(1, 601)], to: "db") } == .corrupt)
            #expect(opened.status.refusal == nil)
            await opened.close()
        }
    }

    @Test(
        "a damaged place up to which it is settled is noticed",
        arguments: [
            "settled = head + 1", "settled = -1", "settled = 0, truncated = 1", "settled = 5",
            "settledHash = 1",
        ])
    func damagedPlace(change: String) async throws {
        try await Self.use { _, second, _, path in
            try edit(path) { try $0.execute(sql: "UPDATE databases SET \(change)") }
            #expect(try await code { _ = try await second.append([request(1, 6)], to: "db") } == .corrupt)
            #expect(try await code { _ = try await second.frontier(of: [ActorID(1)], in: "db") } == .corrupt)
        }
    }

    @Test("what is remembered is bounded: of one database, and of all of them")
    func bounded() throws {
        let connection = try DatabaseQueue()
        try connection.write { db in
            let index = FrontierIndex()
            func frontier(_ number: Int64, actors: Int) throws -> KnownFrontier {
                let logID = LogID.random()
                let head = LogHead(
                    number: number, logID: logID, offset: 0, hash: 0, truncated: 0, truncatedHash: 0,
                    flushed: 0, flushedHash: ChainHash.start(logID))
                var frontier = try KnownFrontier.reading(db, "db", head, since: nil)
                for actor in 0..<UInt64(actors) {
                    let entry = FrontierEntry(sequence: 1, timestamp: 1, hash: 1, authorKey: "key")
                    frontier.advance(
                        ActorID(actor), to: KnownFrontier.Registration(key: "key", frontier: entry))
                }
                return frontier
            }
            index.keep(try frontier(1, actors: LogLimits.knownActors + 1), of: 1)
            #expect(index.take(1) == nil)
            let most = Int64(LogLimits.knownActorsInAll / LogLimits.knownActors)
            let full = try frontier(1, actors: LogLimits.knownActors)
            for number in 1...most { index.keep(full, of: number) }
            index.keep(try #require(index.take(1)), of: 1)
            index.keep(full, of: most + 1)
            #expect(index.take(2) == nil, "the one that was used first is still there")
            for number in [1, 3, most, most + 1] { #expect(index.take(number)?.count == full.count) }
        }
    }
}
