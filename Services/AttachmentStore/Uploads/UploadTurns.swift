import Attachments
import ServiceKit
import Synchronization

/// Lets one request of this process at a time have an upload. A client that lost its connection asks again
/// while the server still waits for bytes of the lost one: so a later request interrupts the earlier.
///
/// `holders` guards itself and is never held across a wait.
final class UploadTurns: Sendable {
    private struct Holder {
        var number: UInt64
        var interrupt: @Sendable () -> Void
    }

    private struct State {
        var holders: [UploadName: Holder] = [:]
        var next: UInt64 = 0
    }

    private let state = Mutex(State())

    /// Runs `body` when no other request has the upload.
    /// - Parameter interrupt: called when another request wants it; `body` has to end soon after.
    /// - Throws: `BLOB-0107` if the other request does not end in time.
    func take<Result: Sendable>(
        _ name: UploadName, interrupt: @escaping @Sendable () -> Void,
        _ body: () async throws -> Result
    ) async throws -> Result {
        let end = ContinuousClock.now + Limits.uploadTurn
        var taken: UInt64?
        while taken == nil {
            let other: Holder? = state.withLock { state in
                if let holder = state.holders[name] { return holder }
                state.next += 1
                taken = state.next
                state.holders[name] = Holder(number: state.next, interrupt: interrupt)
                return nil
            }
            guard let other else { break }
            other.interrupt()
            guard ContinuousClock.now < end else { throw BlobFailure(error: .busyUpload) }
            try await Task.sleep(for: Limits.uploadTurnLook)
        }
        defer {
            state.withLock { state in
                if state.holders[name]?.number == taken { state.holders[name] = nil }
            }
        }
        return try await body()
    }
}

/// A task that another one may interrupt, before or after it has begun.
final class Interruptible: Sendable {
    private struct State {
        var isInterrupted = false
        var task: Task<Void, any Error>?
    }

    private let state = Mutex(State())

    /// True once somebody has called `interrupt`.
    var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    func interrupt() {
        state.withLock { state in
            state.isInterrupted = true
            return state.task
        }?.cancel()
    }

    /// Runs `body` in a task of its own, which `interrupt` and the caller's cancellation cancel.
    func run(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let task = Task { try await body() }
        let isLate = state.withLock { state in
            state.task = task
            return state.isInterrupted
        }
        if isLate { task.cancel() }
        try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
