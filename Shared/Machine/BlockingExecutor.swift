import Dispatch

/// Runs blocking work (SQLite, fsync) on threads of its own, so that it never blocks the cooperative pool.
///
/// Dispatch has threads for each quality of service, as many as there are processors, and all tasks run on
/// those of the default one. Work of that quality would take them: two folds at a time stopped everybody.
/// Serial work has threads besides those.
public struct BlockingExecutor: Sendable {
    /// Nil to run the work where it is called.
    private let queue: DispatchQueue?

    /// An executor; a serial one runs its work in the order of the calls.
    public init(label: String, isSerial: Bool) {
        queue =
            isSerial
            ? DispatchQueue(label: label)
            : DispatchQueue(label: label, qos: .userInitiated, attributes: .concurrent)
    }

    private init() { queue = nil }

    /// Runs the work at once on the caller's thread: for simulations, which have only one thread.
    public static let inline = BlockingExecutor()

    /// Runs `body` on the executor without waiting for it.
    public func start(_ body: @escaping @Sendable () -> Void) {
        guard let queue else { return body() }
        WorkerThread.atUsualPriority { queue.async(execute: body) }
    }

    /// Runs `body` on the executor and waits for it without blocking a task's thread.
    public func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result
    {
        guard let queue else { return try body() }
        return try await PendingAnswer.of(queue, body)
    }
}
