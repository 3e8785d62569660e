import CRDT
import Testing

@testable import OperationLog

@Suite("SQLite log: what was touched before this process knew", .timeLimit(.minutes(1)))
struct TouchIndexTests {
    /// An operation that changes these documents of a collection.
    private func change(
        _ actor: UInt64, _ sequence: SequenceNumber, _ ids: [Int], readAt: Offset? = nil, reads: [Int] = []
    ) throws -> AppendRequest {
        let changes = try ids.map {
            CRDT.Operation.Change(collection: "c", id: try DocumentID(.int(Int64($0))), delta: [1, 2, 3])
        }
        let operation = CRDT.Operation(
            actor: ActorID(actor), sequence: sequence, timestamp: 1_000 + sequence.rawValue, changes: changes)
        let condition = try readAt.map { readAt in
            AppendCondition(
                readAt: readAt, reads: try reads.map { .document("c", try DocumentID(.int(Int64($0)))) })
        }
        return AppendRequest(operation, authorKey: "key", condition: condition)
    }

    private func withOpenings(
        _ body: (_ open: () throws -> SQLiteOperationLog) async throws -> Void
    ) async throws {
        try await withTemporaryPath { path in
            try await body { try SQLiteOperationLog(path: path) }
        }
    }

    @Test("a log that was opened anew reads it from the operations: exactly what a condition names breaks it")
    func reopened() async throws {
        try await withOpenings { open in
            let first = try open()
            try await first.createDatabase("db")
            for sequence in 1...6 as ClosedRange<UInt64> {
                _ = try await first.append(
                    [change(1, SequenceNumber(sequence), [Int(sequence), 100])], to: "db")
            }
            await first.close()
            let second = try open()
            func outcome(_ actor: UInt64, _ readAt: UInt64, _ reads: [Int]) async throws -> AppendOutcome? {
                let request = try change(actor, 1, [900], readAt: Offset(readAt), reads: reads)
                return try await second.append([request], to: "db").first
            }
            #expect(try await outcome(2, 2, [4]) == .conflict(.condition(offset: 4)))
            #expect(try await outcome(2, 3, [2, 100]) == .conflict(.condition(offset: 6)))
            #expect(try await outcome(2, 2, [2]) == .appended(offset: 7))
            // Now it is known from there on, and what this process appends is too.
            #expect(try await outcome(3, 0, [1]) == .conflict(.condition(offset: 1)))
            #expect(try await outcome(3, 6, [900]) == .conflict(.condition(offset: 7)))
            #expect(try await outcome(3, 7, [900]) == .appended(offset: 8))
            await second.close()
        }
    }

    @Test("what another opening has appended meanwhile is seen")
    func another() async throws {
        try await withOpenings { open in
            let (one, two) = (try open(), try open())
            try await one.createDatabase("db")
            _ = try await one.append([change(1, 1, [1])], to: "db")
            _ = try await two.append([change(2, 1, [2])], to: "db")
            _ = try await two.append([change(2, 2, [3])], to: "db")
            let stale = try change(1, 2, [9], readAt: 1, reads: [3])
            #expect(try await one.append([stale], to: "db") == [.conflict(.condition(offset: 3))])
            let fresh = try change(1, 2, [9], readAt: 1, reads: [1])
            #expect(try await one.append([fresh], to: "db") == [.appended(offset: 4)])
            let late = try change(2, 3, [8], readAt: 3, reads: [9])
            #expect(try await two.append([late], to: "db") == [.conflict(.condition(offset: 4))])
            await one.close()
            await two.close()
        }
    }

    @Test("what does not say what it touches touches all, and what is too much to read counts as broken")
    func unknown() async throws {
        try await withOpenings { open in
            let first = try open()
            try await first.createDatabase("db")
            _ = try await first.append([change(1, 1, [1])], to: "db")
            _ = try await first.append([request(5, 1)], to: "db")
            await first.close()
            let second = try open()
            let behind = try change(2, 1, [9], readAt: 2, reads: [1])
            #expect(try await second.append([behind], to: "db") == [.appended(offset: 3)])
            let before = try change(2, 2, [9], readAt: 1, reads: [7])
            #expect(try await second.append([before], to: "db") == [.conflict(.condition(offset: 2))])
            let many = (1...LogLimits.readForConditions).map { request(6, SequenceNumber(UInt64($0))) }
            _ = try await second.append(many, to: "db")
            await second.close()
            let third = try open()
            let far = try change(2, 2, [9], readAt: 2, reads: [7])
            let end = 3 + LogLimits.readForConditions
            #expect(
                try await third.append([far], to: "db") == [
                    .conflict(.condition(offset: Offset(UInt64(end))))
                ])
            await third.close()
        }
    }

    @Test("parts of the index that are full go, and a condition from before them counts as broken")
    func parts() async throws {
        try await withOpenings { open in
            let log = try open()
            try await log.createDatabase("db")
            let count = LogLimits.indexedTouches
            for sequence in 1...4 as ClosedRange<UInt64> {
                let start = Int(sequence) * count
                // With their collection as many touches as a part has room for.
                _ = try await log.append(
                    [change(1, SequenceNumber(sequence), Array(start..<start + count - 1))], to: "db")
            }
            func outcome(_ actor: UInt64, _ readAt: Offset, _ id: Int) async throws -> AppendOutcome? {
                try await log.append([change(actor, 1, [1], readAt: readAt, reads: [id])], to: "db").first
            }
            #expect(try await outcome(2, 3, 4 * count) == .conflict(.condition(offset: 4)))
            #expect(try await outcome(2, 1, count) == .conflict(.condition(offset: 4)))
            #expect(try await outcome(2, 2, count) == .appended(offset: 5))
            await log.close()
        }
    }

    private func touch(_ id: Int) throws -> Touch { .document("c", try DocumentID(.int(Int64(id)))) }

    @Test("what is read may take the place of what was known: then the condition counts as broken")
    func displaced() async throws {
        try await withOpenings { open in
            let log = try open()
            try await log.createDatabase("db")
            for sequence in 1...4 as ClosedRange<UInt64> {
                _ = try await log.append([change(1, SequenceNumber(sequence), [Int(sequence)])], to: "db")
            }
            let (first, other) = (try touch(1), try touch(9))
            let found = try await log.reading { db -> [Offset?] in
                let head = try LogReader.head(db, database: "db")
                let index = TouchIndex(partTouches: 2)
                index.note([(first, 1), (other, 1)], in: head.number, after: 0, through: 1)
                index.note([(other, 2), (Touch(rawValue: 7), 2)], in: head.number, after: 1, through: 2)
                return [
                    try index.last(of: [first], after: 0, head: head, through: 2, db),
                    try index.last(of: [first], after: 0, head: head, through: 4, db),
                    try index.last(of: [first], after: 4, head: head, through: 4, db),
                ]
            }
            #expect(found == [1, 4, nil])
            await log.close()
        }
    }

    @Test("it is bounded: by the touches of one operation, by those of all databases, by bytes to read")
    func bounded() async throws {
        let index = TouchIndex(partTouches: 4, allTouches: 12)
        for database in 1...9 as ClosedRange<Int64> {
            for offset in 1...9 as ClosedRange<Offset> {
                let touches = (0..<3).map { (touch: Touch(rawValue: $0), offset: offset) }
                index.note(touches, in: database, after: offset.previous, through: offset)
                #expect(index.count <= 12)
            }
        }
        try await withOpenings { open in
            let log = try open()
            try await log.createDatabase("db")
            let large = LogLimits.readForConditionsBytes / 2 + 1
            _ = try await log.append([request(5, 1, size: large), request(5, 2, size: large)], to: "db")
            _ = try await log.append([change(1, 1, [1])], to: "db")
            let found = try await log.reading { db -> [Offset?] in
                let head = try LogReader.head(db, database: "db")
                let index = TouchIndex(partTouches: 4)
                let many = (0..<9).map { (touch: Touch(rawValue: $0), offset: Offset(3)) }
                index.note(many, in: head.number, after: 2, through: 3)
                return [
                    // One that touches too much touches everything.
                    try index.last(of: [Touch(rawValue: 77)], after: 2, head: head, through: 3, db),
                    try TouchIndex().last(of: [], after: 0, head: head, through: 3, db),
                ]
            }
            #expect(found == [3, 3])
            await log.close()
        }
    }
}
