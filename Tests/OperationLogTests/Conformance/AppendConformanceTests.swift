import CRDT
import Testing

@testable import OperationLog

@Suite("Log contract: appending")
struct AppendConformanceTests {
    @Test("offsets run from 1 without holes, in the order of the requests", arguments: LogDriver.allCases)
    func offsets(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let first = try await log.append([request(1, 1), request(2, 1), request(1, 2)], to: "db")
            #expect(first == [.appended(offset: 1), .appended(offset: 2), .appended(offset: 3)])
            #expect(try await log.append([request(2, 2)], to: "db") == [.appended(offset: 4)])
            let entries = try await readAll(log)
            #expect(entries.map(\.offset) == [1, 2, 3, 4])
            let sent = [request(1, 1), request(2, 1), request(1, 2), request(2, 2)]
            #expect(entries.map(\.record) == sent.map(\.record))
        }
    }

    @Test("an empty append changes nothing and has no outcome", arguments: LogDriver.allCases)
    func empty(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let outcomes = try await log.append([], to: "db")
            #expect(outcomes.isEmpty)
            #expect(try await log.head(of: "db").offset == 0)
        }
    }

    @Test("eight concurrent appenders leave no hole and no double", arguments: LogDriver.allCases)
    func concurrent(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            try await appendConcurrently(appenders: 8, operations: 40) { _ in log }
            try await expectComplete(log, appenders: 8, operations: 40)
        }
    }

    @Test("appenders of two openings of one log leave no hole and no double", arguments: LogDriver.allCases)
    func twoOpenings(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let other = try openAnother()
            try await appendConcurrently(appenders: 8, operations: 40) { $0 % 2 == 0 ? log : other }
            try await expectComplete(log, appenders: 8, operations: 40)
            try await expectComplete(other, appenders: 8, operations: 40)
            await other.close()
        }
    }

    @Test("an operation at or below the frontier is a duplicate", arguments: LogDriver.allCases)
    func duplicate(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...3), to: "db")
            let again = try await log.append(requests(1, 2...4), to: "db")
            #expect(again == [.duplicate(through: 3), .duplicate(through: 3), .appended(offset: 4)])
            let twice = try await log.append([request(1, 5), request(1, 5)], to: "db")
            #expect(twice == [.appended(offset: 5), .duplicate(through: 5)])
            #expect(try await log.head(of: "db").offset == 5)
        }
    }

    @Test("an operation beyond the next is a gap, and so are those behind it", arguments: LogDriver.allCases)
    func gap(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let strangers = try await log.append([request(1, 2)], to: "db")
            #expect(strangers == [.gap(expected: 1)])
            let mixed = try await log.append(
                [request(1, 1), request(1, 3), request(1, 4), request(2, 1)], to: "db")
            #expect(
                mixed == [.appended(offset: 1), .gap(expected: 2), .gap(expected: 2), .appended(offset: 2)])
            // Also where a whole group is one run of an actor that is known.
            #expect(
                try await log.append([request(1, 3), request(1, 4)], to: "db").first == .gap(expected: 2))
            #expect(try await log.head(of: "db").offset == 2)
        }
    }

    @Test("a gap does not register its actor", arguments: LogDriver.allCases)
    func gapRegistersNothing(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append([request(1, 9, key: "early")], to: "db")
            #expect(try await log.append([request(1, 1, key: "late")], to: "db") == [.appended(offset: 1)])
        }
    }

    @Test("an actor belongs to the key of its first operation", arguments: LogDriver.allCases)
    func foreignActor(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            _ = try await log.append([request(1, 1, key: "Caf\u{E9}")], to: "db")
            let other = try openAnother()
            let stolen = try await other.append([request(1, 2, key: "thief")], to: "db")
            #expect(stolen == [.conflict(.foreignActor)])
            let lookalike = try await other.append([request(1, 2, key: "Cafe\u{301}")], to: "db")
            #expect(lookalike == [.conflict(.foreignActor)])
            #expect(
                try await log.append([request(1, 2, key: "Caf\u{E9}")], to: "db") == [.appended(offset: 2)])
            await other.close()
        }
    }

    @Test(
        "what follows a refused operation of its actor in one call is held back",
        arguments: LogDriver.allCases)
    func heldBack(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append([request(1, 1, text: "mine")], to: "db")
            let outcomes = try await log.append(
                [request(1, 1, text: "copy"), request(1, 2), request(2, 1)], to: "db")
            #expect(
                outcomes == [
                    .conflict(.differentContent(sequence: 1)), .gap(expected: 2), .appended(offset: 2),
                ])
        }
    }

    @Test("the frontier's sequence with another content is a conflict", arguments: LogDriver.allCases)
    func differentContent(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append([request(1, 1, text: "mine")], to: "db")
            let copy = try await log.append([request(1, 1, text: "copy")], to: "db")
            #expect(copy == [.conflict(.differentContent(sequence: 1))])
        }
    }

    @Test("the frontier states sequence, timestamp and content hash", arguments: LogDriver.allCases)
    func frontier(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append(requests(1, 1...3) + requests(2, 1...1), to: "db")
            let frontier = try await log.frontier(of: [ActorID(1), ActorID(2), ActorID(3)], in: "db")
            let last = request(1, 3).record
            let expected = FrontierEntry(
                sequence: 3, timestamp: last.timestamp, hash: ChainHash.content(last.bytes),
                authorKey: request(1, 3).authorKey)
            #expect(frontier[ActorID(1)] == expected)
            #expect(frontier[ActorID(2)]?.sequence == 1)
            #expect(frontier[ActorID(3)] == nil)
        }
    }

    @Test("numbers beyond 63 bits survive", arguments: LogDriver.allCases)
    func largeNumbers(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let record = OperationRecord(
                actor: ActorID(.max), sequence: 1, timestamp: .max - 1, bytes: [0, 255])
            _ = try await log.append([AppendRequest(record: record, authorKey: "", touches: [])], to: "db")
            #expect(try await readAll(log).map(\.record) == [record])
            #expect(
                try await log.frontier(of: [ActorID(.max)], in: "db")[ActorID(.max)]?.timestamp == .max - 1)
        }
    }

    @Test("requests that break a limit are refused whole", arguments: LogDriver.allCases)
    func invalidRequests(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let unnumbered = request(1, 0)
            let endless = request(1, SequenceNumber(1 << 63))
            let keyed = request(1, 2, key: String(repeating: "k", count: LogLimits.authorKeyBytes + 1))
            let bare = AppendRequest(
                record: OperationRecord(actor: ActorID(1), sequence: 2, timestamp: 0, bytes: []),
                authorKey: "", touches: [])
            let touchy = request(
                1, 2, touches: Array(repeating: .collection("c"), count: LogLimits.touches + 1))
            let huge = request(1, 2, size: LogLimits.operationBytes)
            for bad in [unnumbered, endless, keyed, bare, touchy, huge] {
                let refusal = try await code { _ = try await log.append([request(1, 1), bad], to: "db") }
                #expect(refusal == .invalidRequest)
            }
            #expect(try await log.head(of: "db").offset == 0)
        }
    }
}

/// Appends `operations` operations per appender, each in a call of its own, all appenders at once.
private func appendConcurrently(
    appenders: UInt64, operations: UInt64, _ log: (UInt64) -> any OperationLog
) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        for actor in 1...appenders {
            let log = log(actor)
            group.addTask {
                for sequence in 1...operations {
                    let outcome = try await log.append([request(actor, SequenceNumber(sequence))], to: "db")[
                        0]
                    guard case .appended = outcome else { throw Unexpected(outcome: outcome) }
                }
            }
        }
        try await group.waitForAll()
    }
}

private func expectComplete(_ log: any OperationLog, appenders: UInt64, operations: UInt64) async throws {
    let entries = try await readAll(log, step: 50)
    #expect(entries.map(\.offset.rawValue) == Array(1...(appenders * operations)))
    for actor in 1...appenders {
        let sequences = entries.filter { $0.actor == ActorID(actor) }.map(\.sequence.rawValue)
        #expect(sequences == Array(1...operations))
    }
}

private struct Unexpected: Error {
    let outcome: AppendOutcome
}
