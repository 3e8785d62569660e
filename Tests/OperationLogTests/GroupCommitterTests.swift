import CRDT
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import OperationLog

@Suite("Groups are formed, begun and finished in order", .timeLimit(.minutes(5)))
struct GroupCommitterTests {
    /// The steps of a committer, in order: groups by their number, with the sequences of their calls.
    private final class Diary: Sendable {
        struct State {
            var begun: [[UInt64]] = []
            var finished = 0
            var mostUnderWay = 0
            /// Groups that were begun, and finished, by the committing thread.
            var begunThere = 0
            var finishedThere = 0
        }

        let state = Mutex(State())
        /// Callers that are not done.
        let alive = Atomic(0)
        /// Lets a finish end; each takes one.
        let permits = DispatchSemaphore(value: 0)

        /// A committer whose commits take permits, unless all may pass.
        /// - Parameter decides: which groups a caller that commits by itself finds decided; without it none
        ///   does, nor one with an operation of two bytes.
        func committer(
            _ groupsUnderWay: Int, waits: Bool, fails: Bool = false,
            decides: (@Sendable (Int) -> Bool)? = nil
        ) -> GroupCommitter {
            let gate = AdmissionGate(limit: .init(operations: 10_000, bytes: 1 << 24), waiterLimit: 10_000)
            let runsInline: GroupCommitter.RunsInline = { $0.operations[0].record.bytes.count != 2 }
            let committer = GroupCommitter(
                gate: gate, groupsUnderWay: groupsUnderWay, runsInline: decides == nil ? nil : runsInline
            ) { calls in
                let number = self.state.withLock { state in
                    state.begun.append(calls.map { $0.operations[0].record.sequence.rawValue })
                    state.begunThere += Self.isCommitting ? 1 : 0
                    state.mostUnderWay = max(state.mostUnderWay, state.begun.count - state.finished)
                    return state.begun.count - 1
                }
                return GroupCommitter.Commit(isDecided: { _ in decides?(number) ?? false }) {
                    if waits { self.permits.wait() }
                    let offset = self.state.withLock { state in
                        #expect(state.finished == number, "finished out of turn")
                        state.finished += 1
                        state.finishedThere += Self.isCommitting ? 1 : 0
                        return state.begun[..<number].reduce(0) { $0 + $1.count }
                    }
                    guard !fails else {
                        return (.poisoned(OperationLogError(.storageFailed, "no disk")), {})
                    }
                    let results = calls.indices.map { place in
                        Result<[AppendOutcome], OperationLogError>.success(
                            [.appended(offset: Offset(UInt64(offset + place + 1)))])
                    }
                    return (.committed(results), {})
                }
            }
            committer.queue.setSpecific(key: Self.committing, value: true)
            return committer
        }

        /// True on the committing thread.
        private static var isCommitting: Bool { DispatchQueue.getSpecific(key: committing) ?? false }
        private static let committing = DispatchSpecificKey<Bool>()
    }

    private static func append(_ committer: GroupCommitter, _ sequence: SequenceNumber) async throws
        -> AppendOutcome
    {
        try await committer.append(AppendCall([request(1, sequence)], database: "db"))[0]
    }

    @Test(
        "every call is answered once, with what its group was given", arguments: [1, 2], [false, true])
    func answers(groupsUnderWay: Int, callersCommit: Bool) async throws {
        let diary = Diary()
        let most: @Sendable (Int) -> Bool = { $0 % 3 > 0 }
        let committer = diary.committer(groupsUnderWay, waits: false, decides: callersCommit ? most : nil)
        let offsets = try await withThrowingTaskGroup(of: [AppendOutcome].self) { group in
            for caller in 0..<64 as Range<UInt64> {
                group.addTask {
                    var own: [AppendOutcome] = []
                    for number in 0..<50 as Range<UInt64> {
                        own.append(try await Self.append(committer, SequenceNumber(caller * 50 + number + 1)))
                    }
                    return own
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(offsets.count == 3_200)
        #expect(Set(offsets) == Set((1...3_200).map { AppendOutcome.appended(offset: Offset($0)) }))
        let state = diary.state.withLock { $0 }
        #expect(state.begun.reduce(0) { $0 + $1.count } == 3_200)
        #expect(state.mostUnderWay <= groupsUnderWay)
        await committer.close(OperationLogError(.closed, "closed"))
    }

    @Test("many callers take turns in two groups, each begun while the other one is committed")
    func turns() async throws {
        let diary = Diary()
        let committer = diary.committer(2, waits: true)
        let callers = 64
        diary.alive.store(callers, ordering: .relaxed)
        // A commit ends when everybody waits.
        let pace = Task.detached {
            while diary.alive.load(ordering: .relaxed) > 0 {
                if committer.status.queuedOperations >= diary.alive.load(ordering: .relaxed) {
                    diary.permits.signal()
                }
                try? await Task.sleep(for: .microseconds(200))
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<UInt64(callers) {
                group.addTask {
                    for number in 0..<20 as Range<UInt64> {
                        _ = try await Self.append(committer, SequenceNumber(caller * 100 + number + 1))
                    }
                    diary.alive.subtract(1, ordering: .relaxed)
                }
            }
            try await group.waitForAll()
        }
        await pace.value
        let state = diary.state.withLock { $0 }
        #expect(state.mostUnderWay == 2, "no group was begun behind another one")
        #expect(state.begun.reduce(0) { $0 + $1.count } == callers * 20)
        await committer.close(OperationLogError(.closed, "closed"))
    }

    @Test("few callers share one commit, and no group is begun behind it")
    func few() async throws {
        let diary = Diary()
        let committer = diary.committer(2, waits: false)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<UInt64(LogLimits.callersInTurns / 2) {
                group.addTask {
                    for number in 0..<100 as Range<UInt64> {
                        _ = try await Self.append(committer, SequenceNumber(caller * 100 + number + 1))
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(diary.state.withLock { $0.mostUnderWay } == 1)
        await committer.close(OperationLogError(.closed, "closed"))
    }

    @Test("a caller that is alone commits by itself, behind a crowd too")
    func alone() async throws {
        let diary = Diary()
        let committer = diary.committer(2, waits: false, decides: { _ in true })
        for number in 1...10 as ClosedRange<UInt64> {
            #expect(
                try await Self.append(committer, SequenceNumber(number)) == .appended(offset: Offset(number)))
        }
        #expect(diary.state.withLock { $0.begunThere + $0.finishedThere } == 0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 1...32 as ClosedRange<UInt64> {
                group.addTask {
                    for number in 0..<20 {
                        _ = try await Self.append(committer, SequenceNumber(caller * 100 + UInt64(number)))
                    }
                }
            }
            try await group.waitForAll()
        }
        // The turn of the crowd ends when nobody has come for a moment.
        while committer.hasTurnTaken { try await Task.sleep(for: .milliseconds(1)) }
        let before = diary.state.withLock { $0 }
        #expect(before.begunThere == before.finishedThere)
        // A group that took long, as on a busy machine, gives the next one to the committing thread.
        var isAlone = false
        for place in 0..<50 as Range<UInt64> where !isAlone {
            let there = diary.state.withLock { $0.finishedThere }
            let outcome = try await Self.append(committer, SequenceNumber(9_000 + place))
            #expect(outcome == .appended(offset: Offset(651 + place)))
            isAlone = diary.state.withLock { $0.finishedThere } == there
        }
        #expect(isAlone)
        await committer.close(OperationLogError(.closed, "closed"))
    }

    @Test("what a caller does not find decided is finished by the committing thread, before what came later")
    func handedOn() async throws {
        let diary = Diary()
        let committer = diary.committer(2, waits: true, decides: { _ in false })
        async let first = Self.append(committer, 1)
        while diary.state.withLock({ $0.begun.isEmpty }) { try await Task.sleep(for: .milliseconds(1)) }
        async let second = Self.append(committer, 2)
        async let closed: Void = {
            while committer.waitingCalls < 1 { try? await Task.sleep(for: .milliseconds(1)) }
            diary.permits.signal()
            diary.permits.signal()
            await committer.close(OperationLogError(.closed, "closed"))
            #expect(diary.state.withLock { $0.finished } == 2, "closed before all was answered")
        }()
        #expect(try await first == .appended(offset: 1))
        #expect(try await second == .appended(offset: 2))
        await closed
        let state = diary.state.withLock { $0 }
        #expect(state.begun == [[1], [2]])
        #expect(state.begunThere == 1)
        #expect(state.finishedThere == 2)
        await #expect(throws: OperationLogError.self) { try await Self.append(committer, 3) }
    }

    @Test(
        "behind a caller's own commit that failed nothing is taken, and what waits is refused",
        .enabled(if: ProcessInfo.processInfo.activeProcessorCount > 1, "the caller keeps a thread of tasks"))
    func poisoned() async throws {
        let diary = Diary()
        let committer = diary.committer(1, waits: true, fails: true, decides: { _ in true })
        let first = Task { try await Self.append(committer, 1) }
        while diary.state.withLock({ $0.begun.isEmpty }) { try await Task.sleep(for: .milliseconds(1)) }
        let second = Task { try await Self.append(committer, 2) }
        while committer.waitingCalls < 1 { try await Task.sleep(for: .milliseconds(1)) }
        // One for each of the three, so that none waits where none was to be begun.
        for _ in 0..<3 { diary.permits.signal() }
        await #expect(throws: OperationLogError.self) { try await first.value }
        await #expect(throws: OperationLogError.self) { try await second.value }
        await #expect(throws: OperationLogError.self) { try await Self.append(committer, 3) }
        #expect(diary.state.withLock { $0.begun } == [[1]])
        await committer.close(OperationLogError(.closed, "closed"))
    }

    @Test("behind a commit that took long the next caller leaves its call to the committing thread, once")
    func slow() async throws {
        let diary = Diary()
        let committer = diary.committer(2, waits: false, decides: { $0 != 0 || sleptTooLong() })
        // The first is not decided, and finished by the committing thread.
        for number in 1...3 as ClosedRange<UInt64> {
            #expect(
                try await Self.append(committer, SequenceNumber(number)) == .appended(offset: Offset(number)))
            while committer.hasTurnTaken { try await Task.sleep(for: .milliseconds(1)) }
        }
        #expect(diary.state.withLock { $0.begunThere } == 1)
        #expect(diary.state.withLock { $0.finishedThere } == 2)
        await committer.close(OperationLogError(.closed, "closed"))
    }

    @Test("what is not short is left to the committing thread")
    func long() async throws {
        let diary = Diary()
        let committer = diary.committer(2, waits: false, decides: { _ in true })
        let record = OperationRecord(
            actor: ActorID(1), sequence: 1, timestamp: 1 << 16,
            bytes: [1, 2])
        let call = try AppendCall(
            [AppendRequest(record: record, authorKey: "key", touches: [])], database: "db")
        #expect(try await committer.append(call) == [.appended(offset: 1)])
        #expect(diary.state.withLock { $0.begunThere } == 1)
        await committer.close(OperationLogError(.closed, "closed"))
    }
}

/// Not, after twice the time that a caller may wait.
private func sleptTooLong() -> Bool {
    usleep(useconds_t(LogLimits.callerPatience.microseconds) * 2)
    return false
}
