import CRDT
import Dispatch
import Foundation
import LogFakes
import Synchronization
import Testing

@testable import OperationLog

/// Whether a blocking append has ended, and how many tasks gave up before it did.
private final class Course: Sendable {
    let isDone = Atomic(false)
    let late = Atomic(0)
}

@Suite("Appends on a thread that may block", .timeLimit(.minutes(5)))
struct BlockingAppendTests {
    private static func append(
        _ log: SQLiteOperationLog, _ actor: UInt64, _ sequence: SequenceNumber
    ) async throws -> [AppendOutcome] {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(
                    with: Result { try log.appendBlocking([request(actor, sequence)], to: "db") })
            }
        }
    }

    @Test("beside other callers, each gets the offset at which its operation stands")
    func besideOthers() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            let offsets = try await withThrowingTaskGroup(of: [Offset: ActorID].self) { group in
                for caller in 1...8 as ClosedRange<UInt64> {
                    group.addTask {
                        var own: [Offset: ActorID] = [:]
                        for number in 1...20 as ClosedRange<UInt64> {
                            let sequence = SequenceNumber(number)
                            let outcomes =
                                caller.isMultiple(of: 2)
                                ? try await Self.append(log, caller, sequence)
                                : try await log.append([request(caller, sequence)], to: "db")
                            guard case .appended(let offset) = outcomes.first else { continue }
                            own[offset] = ActorID(caller)
                        }
                        return own
                    }
                }
                return try await group.reduce(into: [:]) { $0.merge($1) { one, _ in one } }
            }
            #expect(offsets.count == 160)
            let entries = try await log.read("db", after: 0)
            #expect(entries.count == 160)
            #expect(entries.allSatisfy { offsets[$0.offset] == $0.actor })
            await log.close()
        }
    }

    @Test("one waits for room, and one that waits and one that comes are refused when the log closes")
    func waits() async throws {
        var options = SQLiteOperationLog.Options()
        options.queuedOperations = 1
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path, options: options)
            try await log.createDatabase("db")
            let holder = try LockHolder(path)
            async let admitted = Self.append(log, 1, 1)
            #expect(try await eventually { log.status.queuedOperations == 1 })
            async let waiting = code { _ = try await Self.append(log, 2, 1) }
            #expect(try await eventually { log.status.waitingAppends == 1 })
            async let closed: Void = log.close()
            #expect(try await waiting == .closed)
            #expect(try await code { _ = try await Self.append(log, 3, 1) } == .closed)
            try holder.letGo()
            #expect(try await admitted == [.appended(offset: 1)])
            await closed
        }
    }

    @Test("a log that appends by tasks alone serves a thread while all threads for tasks are busy")
    func busyPool() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            let passing = PassingOnLog(log)
            let course = Course()
            let busy = (0..<4 * ProcessInfo.processInfo.activeProcessorCount).map { _ in
                Task.detached {
                    let end = ContinuousClock.now + .seconds(30)
                    while !course.isDone.load(ordering: .relaxed), ContinuousClock.now < end { usleep(1_000) }
                    if !course.isDone.load(ordering: .relaxed) { course.late.add(1, ordering: .relaxed) }
                }
            }
            let outcomes = try await withCheckedThrowingContinuation { continuation in
                DispatchQueue(label: "a thread that may block").async {
                    let result = Result { try passing.appendBlocking([request(1, 1)], to: "db") }
                    course.isDone.store(true, ordering: .relaxed)
                    continuation.resume(with: result)
                }
            }
            for task in busy { await task.value }
            #expect(outcomes == [.appended(offset: 1)])
            #expect(course.late.load(ordering: .relaxed) == 0)
            await log.close()
        }
    }

    @Test("the outcomes are those of append: a gap, the offset, a duplicate")
    func outcomes() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path)
            try await log.createDatabase("db")
            #expect(try await Self.append(log, 1, 2) == [.gap(expected: 1)])
            #expect(try await Self.append(log, 1, 1) == [.appended(offset: 1)])
            #expect(try await Self.append(log, 1, 1) == [.duplicate(through: 1)])
            #expect(try await log.append([request(1, 2)], to: "db") == [.appended(offset: 2)])
            await log.close()
        }
    }
}
