import CRDT
import Dispatch
import Synchronization
import Testing

@testable import OperationLog

@Suite("Groups are formed, begun and finished in order", .timeLimit(.minutes(5)))
struct GroupCommitterTests {
    /// What a committer did, in order: groups by their number, with the sequences of their calls.
    private final class Diary: Sendable {
        struct State {
            var begun: [[UInt64]] = []
            var finished = 0
            var mostUnderWay = 0
        }

        let state = Mutex(State())
        /// Callers that are not done.
        let alive = Atomic(0)
        /// Lets a finish end; each takes one.
        let permits = DispatchSemaphore(value: 0)

        /// A committer whose commits take permits, unless all may pass.
        func committer(_ groupsUnderWay: Int, waits: Bool) -> GroupCommitter {
            let gate = AdmissionGate(limit: .init(operations: 10_000, bytes: 1 << 24), waiterLimit: 10_000)
            return GroupCommitter(gate: gate, groupsUnderWay: groupsUnderWay) { calls in
                let number = self.state.withLock { state in
                    state.begun.append(calls.map { $0.operations[0].record.sequence })
                    state.mostUnderWay = max(state.mostUnderWay, state.begun.count - state.finished)
                    return state.begun.count - 1
                }
                return {
                    if waits { self.permits.wait() }
                    let offset = self.state.withLock { state in
                        #expect(state.finished == number, "finished out of turn")
                        state.finished += 1
                        return state.begun[..<number].reduce(0) { $0 + $1.count }
                    }
                    let results = calls.indices.map { place in
                        Result<[AppendOutcome], OperationLogError>.success(
                            [.appended(offset: UInt64(offset + place + 1))])
                    }
                    return (.committed(results), {})
                }
            }
        }
    }

    private static func append(_ committer: GroupCommitter, _ sequence: UInt64) async throws -> AppendOutcome
    {
        try await committer.append(AppendCall([request(1, sequence)], database: "db"))[0]
    }

    @Test("every call is answered once, with what its group was given", arguments: [1, 2])
    func answers(groupsUnderWay: Int) async throws {
        let diary = Diary()
        let committer = diary.committer(groupsUnderWay, waits: false)
        let offsets = try await withThrowingTaskGroup(of: [AppendOutcome].self) { group in
            for caller in 0..<64 as Range<UInt64> {
                group.addTask {
                    var own: [AppendOutcome] = []
                    for number in 0..<50 as Range<UInt64> {
                        own.append(try await Self.append(committer, caller * 50 + number + 1))
                    }
                    return own
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(offsets.count == 3_200)
        #expect(Set(offsets) == Set((1...3_200).map { .appended(offset: $0) }))
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
                        _ = try await Self.append(committer, caller * 100 + number + 1)
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
                        _ = try await Self.append(committer, caller * 100 + number + 1)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(diary.state.withLock { $0.mostUnderWay } == 1)
        await committer.close(OperationLogError(.closed, "closed"))
    }
}
