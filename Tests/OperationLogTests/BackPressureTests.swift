import Synchronization
import TestSupport
import Testing

@testable import OperationLog

@Suite("Appends are bounded: back-pressure", .timeLimit(.minutes(5)))
struct BackPressureTests {
    @Test(
        "beyond the queue appenders wait, beyond the waiting they are refused, and all waiters get their turn"
    )
    func boundedQueue() async throws {
        var options = SQLiteOperationLog.Options()
        options.queuedOperations = 4
        options.waitingAppends = 2
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path, options: options)
            try await log.createDatabase("db")
            let holder = try LockHolder(path)
            try await withThrowingTaskGroup(of: AppendOutcome.self) { group in
                for actor in 1...6 as ClosedRange<UInt64> {
                    group.addTask { try await log.append([request(actor, 1)], to: "db")[0] }
                }
                #expect(try await eventually { log.status.waitingAppends == 2 })
                #expect(log.status.queuedOperations == 4)
                #expect(try await code { _ = try await log.append([request(7, 1)], to: "db") } == .overloaded)
                try holder.letGo()
                var outcomes: Set<AppendOutcome> = []
                for try await outcome in group { outcomes.insert(outcome) }
                #expect(outcomes == Set((1...6).map { .appended(offset: $0) }))
            }
            #expect(log.status.queuedOperations == 0)
            #expect(log.status.waitingAppends == 0)
            await log.close()
        }
    }

    @Test("a waiting append can be cancelled, and stores nothing")
    func cancellation() async throws {
        var options = SQLiteOperationLog.Options()
        options.queuedOperations = 1
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path, options: options)
            try await log.createDatabase("db")
            let holder = try LockHolder(path)
            let admitted = Task { try await log.append([request(1, 1)], to: "db") }
            #expect(try await eventually { log.status.queuedOperations == 1 })
            let waiting = Task { try await log.append([request(2, 1)], to: "db") }
            #expect(try await eventually { log.status.waitingAppends == 1 })
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            try holder.letGo()
            #expect(try await admitted.value == [.appended(offset: 1)])
            #expect(try await log.head(of: "db").offset == 1)
            await log.close()
        }
    }

    @Test("closing answers what was admitted and refuses what waits")
    func closing() async throws {
        var options = SQLiteOperationLog.Options()
        options.queuedOperations = 1
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path, options: options)
            try await log.createDatabase("db")
            let holder = try LockHolder(path)
            async let admitted = log.append([request(1, 1)], to: "db")
            #expect(try await eventually { log.status.queuedOperations == 1 })
            async let waiting = code { _ = try await log.append([request(2, 1)], to: "db") }
            #expect(try await eventually { log.status.waitingAppends == 1 })
            async let closed: Void = log.close()
            #expect(try await waiting == .closed)
            try holder.letGo()
            #expect(try await admitted == [.appended(offset: 1)])
            await closed
        }
    }

    @Test("a call larger than the bound is admitted alone, and small ones do not overtake it")
    func oversized() async throws {
        let gate = AdmissionGate(limit: .init(operations: 10, bytes: 100), waiterLimit: 10)
        let small = AdmissionGate.Cost(operations: 1, bytes: 10)
        let large = AdmissionGate.Cost(operations: 1, bytes: 1_000)
        try await gate.acquire(small)
        let first = Task { try await gate.acquire(large) }
        #expect(try await eventually { gate.load.waiters == 1 })
        let second = Task { try await gate.acquire(small) }
        #expect(try await eventually { gate.load.waiters == 2 })
        gate.release(small)
        try await first.value
        #expect(gate.load.used == large)
        #expect(gate.load.waiters == 1)
        gate.release(large)
        try await second.value
        #expect(gate.load.used == small)
    }

    @Test("in any order of steps each admitted call gives its room back, and each that waits has an end")
    func orders() {
        for seed in Depth.seeds(fast: 500, deep: 20_000) {
            let tasks = ShuffledTasks(seed: seed)
            let gate = AdmissionGate(limit: .init(operations: 3, bytes: 30), waiterLimit: 12)
            let run = Mutex((operations: 0, most: 0, ended: 0))
            let calls = (0..<10).map { _ in
                let size = 1 + tasks.below(3)
                return tasks.begin {
                    await tasks.pause()
                    let cost = AdmissionGate.Cost(operations: size, bytes: size * 10)
                    if (try? await gate.acquire(cost)) != nil {
                        run.withLock {
                            $0.operations += size
                            $0.most = max($0.most, $0.operations)
                        }
                        await tasks.pause()
                        run.withLock { $0.operations -= size }
                        gate.release(cost)
                    }
                    run.withLock { $0.ended += 1 }
                }
            }
            _ = tasks.begin {
                for call in calls.prefix(4) {
                    await tasks.pause()
                    call.cancel()
                }
            }
            let isClosed = tasks.below(4) == 0
            _ = tasks.begin {
                await tasks.pause()
                if isClosed { gate.close(OperationLogError(.closed, "closed")) }
            }
            tasks.run()
            let (most, ended) = run.withLock { ($0.most, $0.ended) }
            #expect(ended == 10 && gate.load.waiters == 0, "seed \(seed): a call waits for ever")
            #expect(most <= 3 && gate.load.used == .init(operations: 0, bytes: 0), "seed \(seed)")
        }
    }
}
