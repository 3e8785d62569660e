import Dispatch
import Synchronization

/// Calls handlers for which the application named no queue: on the main queue where the process serves it,
/// else on one serial queue of the SDK.
///
/// A Linux process serves its main queue while it runs `RunLoop.main.run()` or `dispatchMain()`, and while an
/// `async` main waits; a command line tool that blocks its main thread never does. Only the queue itself can
/// tell: a probe is posted to it. Once the probe has run, the queue counts as served for the rest of the
/// process. Before, the first handlers wait for it, at most `Limits.mainQueuePatience`.
///
/// Invariant: work is done in the order in which it was posted. So while work waits on the SDK's queue, later
/// work goes there too. `state` guards both facts.
final class DefaultDelivery: Sendable {
    private struct State {
        /// True once the probe has run.
        var isServed = false
        /// The work on the SDK's queue that is neither done nor handed to the main queue.
        var waiting = 0
        /// The time until which work waits for the probe; nil before the first.
        var deadline: DispatchTime?
    }

    static let shared = DefaultDelivery(main: .main, own: DittoStore.defaultDeliveryQueue)

    private let main: DispatchQueue
    private let own: DispatchQueue
    private let state = Mutex(State())
    private let probe = DispatchGroup()

    init(main: DispatchQueue, own: DispatchQueue) {
        self.main = main
        self.own = own
    }

    /// Calls the work soon, after all earlier work.
    func async(_ work: @escaping @Sendable () -> Void) {
        let (goesToMain, isFirst) = state.withLock { state in
            guard !state.isServed || state.waiting > 0 else { return (true, false) }
            state.waiting += 1
            defer { state.deadline = state.deadline ?? .now() + Limits.mainQueuePatience / .seconds(1) }
            return (false, state.deadline == nil)
        }
        guard !goesToMain else { return main.async(execute: work) }
        if isFirst { sendProbe() }
        own.async { [self] in
            if isServed {
                main.async(execute: work)
            } else {
                work()
            }
            state.withLock { $0.waiting -= 1 }
        }
    }

    /// Whether the main queue is served; waits for the probe until the deadline.
    private var isServed: Bool {
        let (isKnown, deadline) = state.withLock { ($0.isServed, $0.deadline) }
        if !isKnown, let deadline { _ = probe.wait(timeout: deadline) }
        return state.withLock { $0.isServed }
    }

    private func sendProbe() {
        probe.enter()
        main.async { [self] in
            state.withLock { $0.isServed = true }
            probe.leave()
        }
    }
}

extension DispatchQueue {
    /// Calls a handler on this queue, or by `DefaultDelivery` if this is the queue that stands for it.
    func deliver(_ work: @escaping @Sendable () -> Void) {
        if self === DittoStore.defaultDeliveryQueue {
            DefaultDelivery.shared.async(work)
        } else {
            async(execute: work)
        }
    }
}
