import DQL
import Logging
import Machine
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
/// (`isDirty`). Actor isolation guards all variables; `comparison` tells the state to tasks that wait.
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

    private struct Comparison: Sendable {
        /// The comparisons that were asked for, and those of them that one has covered.
        var asked: UInt64 = 0
        var done: UInt64 = 0
        var isClosed = false
    }
    private nonisolated let comparison = Monitor(Comparison())

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
        comparison.change { $0.asked += 1 }
        if task == nil { task = Task { await run() } }
    }

    /// Waits until the indexes are as the definitions say that are folded now.
    /// - Returns: false when that takes longer than `timeout`, or the evaluation ends before.
    func settle(for evaluation: Evaluation, timeout: Duration) async -> Bool {
        let settling = Task { await settle(timeout: timeout) }
        evaluation.whenEnded { settling.cancel() }
        return await withTaskCancellationHandler {
            await settling.value
        } onCancel: {
            settling.cancel()
        }
    }

    /// Waits until the indexes of a folder that was built anew are there, once it has reached the log's head.
    /// - Returns: false when that takes longer than `timeout`.
    func settleFirst(timeout: Duration) async -> Bool {
        guard !isSettledFirst else { return true }
        guard await settle(timeout: timeout) else { return false }
        isNew.store(false, ordering: .releasing)
        return true
    }

    private func settle(timeout: Duration) async -> Bool {
        wake()
        guard task != nil else { return !isClosed }
        let wanted = comparison.read { $0.asked }
        let isSettled = await comparison.take(within: timeout) { state -> Bool? in
            if state.isClosed { return false }
            return state.done >= wanted ? true : nil
        }
        return isSettled ?? false
    }

    /// Ends the waits. An index that is being built is completed, or continued at the next opening.
    func close() {
        isClosed = true
        comparison.change { $0.isClosed = true }
    }

    private func run() async {
        while isDirty, !isClosed, let materializer {
            isDirty = false
            let asked = comparison.read { $0.asked }
            let replica = materializer.replica
            do {
                try await materializer.executor.run { try Self.align(replica) }
                comparison.change { $0.done = asked }
            } catch let error as ReplicaError where error.code == .closed {
                close()
            } catch {
                logger.error(
                    "indexes cannot be built, retrying",
                    metadata: ["database": "\(materializer.database)", "error": "\(error)"])
                isDirty = true
                try? await Task.sleep(for: Limits.indexRetry)
            }
        }
        task = nil
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
