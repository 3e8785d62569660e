import DittoSwift
import Foundation

#if canImport(Combine)
    import Combine
#else
    import OpenCombine
#endif

/// A publisher of the values that an observer delivers. It never fails.
struct Observation<Output>: Publisher {
    typealias Failure = Never

    /// One value on its way to a subscriber.
    struct Delivery {
        let value: Output
        /// True if no value follows.
        var isLast = false
        /// Called when the subscriber has taken the value; then the observer may deliver the next.
        var taken: () -> Void = {}
    }

    /// Begins an observation, and returns what ends it. Nil if it cannot begin.
    let begin: (_ deliver: @escaping (Delivery) -> Void) -> (() -> Void)?

    func receive<Target: Subscriber>(subscriber: Target)
    where Target.Input == Output, Target.Failure == Never {
        subscriber.receive(subscription: ObservationSubscription(begin, subscriber))
    }
}

extension Observation {
    /// The newest value of an observer that does not wait.
    /// - Parameters:
    ///   - observe: begins the observer.
    ///   - stop: ends it.
    static func newest<Observer>(
        of observe: @escaping (@escaping (Output) -> Void) -> Observer, stop: @escaping (Observer) -> Void
    ) -> Observation {
        Observation { deliver in
            let observer = observe { deliver(Delivery(value: $0)) }
            return { stop(observer) }
        }
    }

    /// Each value of a live query, which waits until a value was taken.
    @available(*, deprecated, message: "Use registerObserver of ditto.store")
    static func each(
        of observe: @escaping (@escaping (Output, @escaping DittoSignalNext) -> Void) -> DittoLiveQuery
    ) -> Observation {
        Observation { deliver in
            let query = observe { value, signalNext in deliver(Delivery(value: value, taken: signalNext)) }
            return { query.stop() }
        }
    }
}

/// One subscriber's observation. `lock` guards everything; it is not held while the subscriber is called.
///
/// Invariant: at most one value waits. A newer one replaces it, which happens only to observers that do not
/// wait for `taken`.
private final class ObservationSubscription<Target: Subscriber>: Subscription where Target.Failure == Never {
    private let lock = NSLock()
    private let begin: (@escaping (Observation<Target.Input>.Delivery) -> Void) -> (() -> Void)?
    private var subscriber: Target?
    private var demand = Subscribers.Demand.none
    private var waiting: Observation<Target.Input>.Delivery?
    private var hasBegun = false
    private var isDelivering = false
    private var end: (() -> Void)?

    init(
        _ begin: @escaping (@escaping (Observation<Target.Input>.Delivery) -> Void) -> (() -> Void)?,
        _ subscriber: Target
    ) {
        self.begin = begin
        self.subscriber = subscriber
    }

    func request(_ more: Subscribers.Demand) {
        let isFirst = lock.withLock {
            demand += more
            defer { hasBegun = true }
            return !hasBegun
        }
        if isFirst { observe() }
        drain()
    }

    func cancel() {
        let end = lock.withLock {
            defer {
                self.end = nil
                subscriber = nil
                waiting = nil
            }
            return self.end
        }
        end?()
    }

    private func observe() {
        let end = begin { [weak self] delivery in
            guard let self else { return }
            lock.withLock { waiting = delivery }
            drain()
        }
        guard let end else { return finish() }
        let isOver = lock.withLock {
            self.end = end
            return subscriber == nil
        }
        // Cancelled by its first value.
        if isOver { cancel() }
    }

    /// Hands over the waiting value if there is demand. One thread at a time does.
    private func drain() {
        while true {
            let next: (Target, Observation<Target.Input>.Delivery)? = lock.withLock {
                guard !isDelivering, demand > 0, let subscriber, let waiting else { return nil }
                isDelivering = true
                demand -= 1
                self.waiting = nil
                return (subscriber, waiting)
            }
            guard let (subscriber, delivery) = next else { return }
            let more = subscriber.receive(delivery.value)
            lock.withLock {
                isDelivering = false
                demand += more
            }
            delivery.taken()
            if delivery.isLast { return finish() }
        }
    }

    private func finish() {
        let subscriber = lock.withLock { self.subscriber }
        cancel()
        subscriber?.receive(completion: .finished)
    }
}
