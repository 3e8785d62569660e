import Dispatch

/// Runs blocking work (SQLite, fsync) on threads of its own, so that it never holds up the cooperative pool.
public struct BlockingExecutor: Sendable {
    private let queue: DispatchQueue

    /// An executor; a serial one runs its work in the order it was given.
    public init(label: String, isSerial: Bool) {
        queue = DispatchQueue(label: label, attributes: isSerial ? [] : .concurrent)
    }

    /// Runs `body` on the executor, without anybody waiting for it.
    public func start(_ body: @escaping @Sendable () -> Void) { queue.async(execute: body) }

    /// Runs `body` on the executor and waits for it without blocking a task's thread.
    public func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result
    {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try body() }) }
        }
    }
}
