import CRDT
import Testing

@testable import OperationLog

@Suite("Log contract: conditions")
struct ConditionConformanceTests {
    private let a = Touch.document("c", id("a"))
    private let b = Touch.document("c", id("b"))

    private static func id(_ text: String) -> DocumentID {
        guard let id = try? DocumentID(.string(text)) else { preconditionFailure("a text is an id") }
        return id
    }

    @Test("an append stands while nothing it read was touched, and not after", arguments: LogDriver.allCases)
    func breach(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            _ = try await log.append([request(1, 1, touches: [a])], to: "db")
            _ = try await log.append([request(2, 1, touches: [b])], to: "db")
            let stale = AppendCondition(readAt: 0, reads: [a])
            #expect(
                try await log.append([request(3, 1, condition: stale)], to: "db")
                    == [.conflict(.condition(offset: 1))])
            let fresh = AppendCondition(readAt: 1, reads: [a])
            #expect(
                try await log.append([request(3, 1, touches: [a], condition: fresh)], to: "db")
                    == [.appended(offset: 3)])
            let both = AppendCondition(readAt: 2, reads: [b, a])
            #expect(
                try await log.append([request(4, 1, condition: both)], to: "db")
                    == [.conflict(.condition(offset: 3))])
        }
    }

    @Test("operations of one call and of one group count for each other", arguments: LogDriver.allCases)
    func sameGroup(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let condition = AppendCondition(readAt: 0, reads: [a])
            let outcomes = try await log.append(
                [
                    request(1, 1, touches: [a], condition: condition),
                    request(2, 1, touches: [a], condition: condition),
                    request(2, 2), request(3, 1, touches: [b]),
                ], to: "db")
            #expect(
                outcomes == [
                    .appended(offset: 1), .conflict(.condition(offset: 1)), .gap(expected: 1),
                    .appended(offset: 2),
                ])
        }
    }

    @Test("what was stored before is a duplicate, whatever its condition", arguments: LogDriver.allCases)
    func duplicate(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let first = request(1, 1, touches: [a], condition: AppendCondition(readAt: 0, reads: [a]))
            let outcomes = try await log.append([first], to: "db") + log.append([first], to: "db")
            #expect(outcomes == [.appended(offset: 1), .duplicate(through: 1)])
        }
    }

    @Test("a condition on a collection is broken by any of its documents", arguments: LogDriver.allCases)
    func collection(driver: LogDriver) async throws {
        try await driver.withLog { log, _ in
            let touches = [Touch.collection("c"), a]
            _ = try await log.append([request(1, 1, touches: touches)], to: "db")
            let other = AppendCondition(readAt: 0, reads: [.collection("d")])
            #expect(
                try await log.append([request(2, 1, condition: other)], to: "db") == [.appended(offset: 2)])
            let same = AppendCondition(readAt: 0, reads: [.collection("c")])
            #expect(
                try await log.append([request(2, 2, condition: same)], to: "db")
                    == [.conflict(.condition(offset: 1))])
        }
    }

    @Test(
        "of many openings that count up in turns of read and write, none loses a turn",
        arguments: LogDriver.allCases)
    func counting(driver: LogDriver) async throws {
        try await driver.withLog { log, openAnother in
            let logs = try [log, openAnother(), openAnother()]
            try await withThrowingTaskGroup(of: Void.self) { group in
                for actor in 1...6 as ClosedRange<UInt64> {
                    group.addTask { try await count(logs[Int(actor) % 3], actor, turns: 10) }
                }
                try await group.waitForAll()
            }
            let texts = try await readAll(log).map { String(decoding: $0.bytes, as: UTF8.self) }
            #expect(texts.map { $0.split(separator: "/").last } == (1...60).map { "\($0)" })
            for other in logs.dropFirst() { await other.close() }
        }
    }

    /// Appends the number that follows the last one, read at the head, until it stands.
    private func count(_ log: any OperationLog, _ actor: UInt64, turns: UInt64) async throws {
        for sequence in 1...turns {
            while true {
                let head = try await log.head(of: "db").offset
                let next = request(
                    actor, SequenceNumber(sequence), text: "\(head.next)", touches: [a],
                    condition: AppendCondition(readAt: head, reads: [a]))
                if case .appended? = try await log.append([next], to: "db").first { break }
            }
        }
    }
}
