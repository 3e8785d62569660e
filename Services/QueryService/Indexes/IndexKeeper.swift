import DQL
import Logging
import Replica
import ServiceKit
import Synchronization

/// Makes a folder's indexes those that the database's definitions say (`IndexDefinitions`).
///
/// It compares the two at the beginning and whenever a definition was folded, so it does not matter when a
/// process ends: the next one finds what is missing, and the store continues an index that was begun. While
/// one is built, readers use their snapshots, and writers wait for one step of it at most.
///
/// Invariant: at most one comparison runs (`task`), and a definition folded meanwhile causes another one
/// (`isDirty`). Actor isolation guards all variables.
actor IndexKeeper {
    private var materializer: Materializer?
    private let logger: Logger
    private var isDirty = false
    private var isClosed = false
    /// True until the indexes of a folder that was built anew were there for the first time.
    private nonisolated let isNew = Atomic<Bool>(false)
    /// Returns at once whether `settleFirst` has nothing to wait for.
    nonisolated var isSettledFirst: Bool { !isNew.load(ordering: .acquiring) }
    private var task: Task<Void, Never>?
    private var waiters: [(number: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    private var lastWaiter: UInt64 = 0

    init(logger: Logger) { self.logger = logger }

    /// Begins, once the store is open.
    /// - Parameter isNew: true if nothing was folded yet.
    func begin(_ materializer: Materializer, isNew: Bool) {
        self.isNew.store(isNew, ordering: .releasing)
        self.materializer = materializer
        wake()
    }

    /// Compares: a definition may have changed.
    func wake() {
        guard !isClosed, materializer != nil else { return }
        isDirty = true
        if task == nil { task = Task { await run() } }
    }

    /// Waits until the indexes are as the definitions say that are folded now.
    /// - Returns: false when that takes longer than `timeout`, or the evaluation ends before.
    func settle(for evaluation: Evaluation, timeout: Duration) async -> Bool {
        await settle(timeout: timeout) { number in
            evaluation.whenEnded { Task { await self.giveUp(number) } }
        }
    }

    /// Waits until the indexes of a folder that was built anew are there, once it has reached the log's head.
    /// - Returns: false when that takes longer than `timeout`.
    func settleFirst(timeout: Duration) async -> Bool {
        guard !isSettledFirst else { return true }
        guard await settle(timeout: timeout, { _ in }) else { return false }
        isNew.store(false, ordering: .releasing)
        return true
    }

    private func settle(timeout: Duration, _ whenWaiting: (_ number: UInt64) -> Void) async -> Bool {
        wake()
        guard task != nil else { return !isClosed }
        lastWaiter += 1
        let number = lastWaiter
        let alarm = Task {
            try await Task.sleep(for: timeout)
            self.giveUp(number)
        }
        defer { alarm.cancel() }
        return await withCheckedContinuation { continuation in
            waiters.append((number, continuation))
            whenWaiting(number)
        }
    }

    /// Ends the waits. An index that is being built is completed, or continued at the next opening.
    func close() {
        isClosed = true
        for waiter in waiters { waiter.continuation.resume(returning: false) }
        waiters = []
    }

    private func giveUp(_ number: UInt64) {
        guard let place = waiters.firstIndex(where: { $0.number == number }) else { return }
        waiters.remove(at: place).continuation.resume(returning: false)
    }

    private func run() async {
        while isDirty, !isClosed, let materializer {
            isDirty = false
            let replica = materializer.replica
            do {
                try await materializer.executor.run { try Self.align(replica) }
            } catch let error as ReplicaError where error.code == .closed {
                isClosed = true
            } catch {
                logger.error(
                    "indexes cannot be built, retrying",
                    metadata: ["database": "\(materializer.database)", "error": "\(error)"])
                isDirty = true
                try? await Task.sleep(for: Limits.indexRetry)
            }
        }
        task = nil
        for waiter in waiters { waiter.continuation.resume(returning: !isClosed) }
        waiters = []
    }

    /// Drops the indexes that are not defined, and builds the others.
    private static func align(_ replica: Materialization) throws {
        let wanted = try replica.read { try IndexDefinitions.all(in: $0) }
        let present = try replica.indexes()
        for index in present where !wanted.contains(where: { $0.isDefined(like: index) }) {
            try replica.change(.drop(collection: index.collection, name: index.name, ifExists: true))
        }
        for index in wanted where !present.contains(where: { $0.isReady && $0.isDefined(like: index) }) {
            do {
                try replica.change(.create(index, ifNotExists: true)) {
                    let isWanted = try? replica.read { try IndexDefinitions.contains(index, in: $0) }
                    return isWanted ?? true ? nil : .cancelled
                }
            } catch let error as DQLError where error.code == .cancelled {
                // It was dropped meanwhile: nothing of it is left, or the next comparison removes it.
                try replica.change(.drop(collection: index.collection, name: index.name, ifExists: true))
            }
        }
    }
}
