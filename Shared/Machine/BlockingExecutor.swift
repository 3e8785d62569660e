import Dispatch

/// Runs blocking work (SQLite, fsync) on threads of its own, so that it never blocks the cooperative pool.
public struct BlockingExecutor: Sendable {
    /// Nil to run the work where it is called.
    private let queue: DispatchQueue?

    /// An executor; a serial one runs its work in the order of the calls.
    public init(label: String, isSerial: Bool) {
        queue = DispatchQueue(label: label, attributes: isSerial ? [] : .concurrent)
    }

    private init() { queue = nil }

    /// Runs the work at once on the caller's thread: for simulations, which have only one thread.
    public static let inline = BlockingExecutor()

    /// Runs `body` on the executor without waiting for it.
    public func start(_ body: @escaping @Sendable () -> Void) {
        guard let queue else { return body() }
        queue.async(execute: body)
    }

    /// Runs `body` on the executor and waits for it without blocking a task's thread.
    public func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result
    {
        guard let queue else { return try body() }
        return try await PendingAnswer.of(queue, body)
    }
}
