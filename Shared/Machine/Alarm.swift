import Dispatch

/// One call after a time, unless it is taken back before.
///
/// Nothing is left of an alarm that was cancelled. A cancelled `Task.sleep` keeps its task and its timer,
/// some 600 bytes, until its time is over: each database that was opened and closed left that for an hour,
/// and each wait with a long patience that ended early for as long as the patience.
public final class Alarm: Sendable {
    // Safe: a source of Dispatch may be used on any thread, and it is only cancelled once it is here.
    private nonisolated(unsafe) let timer: any DispatchSourceTimer

    /// Rings once, on a queue of all alarms: `ring` must not block.
    public init(after time: Duration, _ ring: @escaping @Sendable () -> Void) {
        timer = DispatchSource.makeTimerSource(queue: Self.queue)
        timer.setEventHandler(handler: ring)
        timer.schedule(deadline: .now() + time.dispatchInterval)
        timer.activate()
    }

    deinit { timer.cancel() }

    /// Takes it back. It may be ringing at this moment; afterwards it never does.
    public func cancel() { timer.cancel() }

    /// Suspends the task for a time.
    /// - Throws: `CancellationError` at once when the task is cancelled.
    public static func sleep(for time: Duration) async throws(CancellationError) {
        let isOver = PendingAnswer<Bool>()
        let alarm = Alarm(after: time) { isOver.give(true) }
        let wasOver = await withTaskCancellationHandler {
            await isOver.value()
        } onCancel: {
            isOver.give(false)
        }
        alarm.cancel()
        guard wasOver else { throw CancellationError() }
    }

    private static let queue = DispatchQueue(label: "mimeo.alarms")
}

extension Duration {
    /// The duration for Dispatch, clamped to 0 and some hundred years.
    fileprivate var dispatchInterval: DispatchTimeInterval {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return .nanoseconds(0) }
        let most = Int64(4_000_000_000)
        return .nanoseconds(Int(min(seconds, most) * 1_000_000_000 + attoseconds / 1_000_000_000))
    }
}
