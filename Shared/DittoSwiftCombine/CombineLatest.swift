// Combine has this operator; OpenCombine 0.14 does not.
#if !canImport(Combine)
    import Foundation
    import OpenCombine

    extension Publisher {
        /// Publishes the newest values of both publishers whenever one of them has a new one, once both have
        /// one. Finishes when both have, or when one has without a value.
        public func combineLatest<Other: Publisher>(
            _ other: Other
        ) -> AnyPublisher<(Output, Other.Output), Failure> where Other.Failure == Failure {
            Publishers.CombineLatest(self, other).eraseToAnyPublisher()
        }

        /// As above, with the values made into one.
        public func combineLatest<Other: Publisher, Result>(
            _ other: Other, _ transform: @escaping (Output, Other.Output) -> Result
        ) -> AnyPublisher<Result, Failure> where Other.Failure == Failure {
            Publishers.CombineLatest(self, other).map { transform($0.0, $0.1) }.eraseToAnyPublisher()
        }

        /// As above, for three publishers.
        public func combineLatest<Second: Publisher, Third: Publisher>(
            _ second: Second, _ third: Third
        ) -> AnyPublisher<(Output, Second.Output, Third.Output), Failure>
        where Second.Failure == Failure, Third.Failure == Failure {
            Publishers.CombineLatest(Publishers.CombineLatest(self, second), third)
                .map { ($0.0.0, $0.0.1, $0.1) }.eraseToAnyPublisher()
        }
    }

    extension Publishers {
        /// The newest values of two publishers.
        public struct CombineLatest<A: Publisher, B: Publisher>: Publisher where A.Failure == B.Failure {
            /// A value of each.
            public typealias Output = (A.Output, B.Output)
            /// The failure of either.
            public typealias Failure = A.Failure

            private let a: A
            private let b: B

            /// Combines two publishers.
            public init(_ a: A, _ b: B) {
                self.a = a
                self.b = b
            }

            /// Subscribes to both for a subscriber.
            public func receive<Target: Subscriber>(
                subscriber: Target
            ) where Target.Input == Output, Target.Failure == Failure {
                let latest = LatestSubscription<A.Output, B.Output, Target>(subscriber)
                subscriber.receive(subscription: latest)
                latest.begin(a, b)
            }
        }
    }

    /// One subscriber of two publishers. `lock` guards everything; nobody is called while it is held. Only
    /// the newest pair waits for demand.
    private final class LatestSubscription<A, B, Target: Subscriber>: Subscription
    where Target.Input == (A, B) {
        private let lock = NSRecursiveLock()
        private var subscriber: Target?
        private var demand = Subscribers.Demand.none
        private var a: A?
        private var b: B?
        private var hasNews = false
        private var isDelivering = false
        private var finished = 0
        private var parts: [AnyCancellable] = []

        init(_ subscriber: Target) { self.subscriber = subscriber }

        func begin<First: Publisher, Second: Publisher>(_ first: First, _ second: Second)
        where
            First.Output == A, Second.Output == B, First.Failure == Target.Failure,
            Second.Failure == Target.Failure
        {
            let one = first.sink { [self] in
                let hasValue = lock.withLock { a != nil }
                end($0, hasValue: hasValue)
            } receiveValue: { [self] in
                take(first: $0)
            }
            let two = second.sink { [self] in
                let hasValue = lock.withLock { b != nil }
                end($0, hasValue: hasValue)
            } receiveValue: { [self] in
                take(second: $0)
            }
            let isOver = lock.withLock {
                parts = [one, two]
                return subscriber == nil
            }
            if isOver { cancel() }
        }

        func request(_ more: Subscribers.Demand) {
            lock.withLock { demand += more }
            drain()
        }

        func cancel() {
            let parts = lock.withLock {
                defer { self.parts = [] }
                subscriber = nil
                return self.parts
            }
            for part in parts { part.cancel() }
        }

        private func take(first: A) {
            lock.withLock {
                a = first
                hasNews = b != nil
            }
            drain()
        }

        private func take(second: B) {
            lock.withLock {
                b = second
                hasNews = a != nil
            }
            drain()
        }

        private func drain() {
            while true {
                let next: (Target, (A, B))? = lock.withLock {
                    guard !isDelivering, hasNews, demand > 0, let subscriber, let a, let b else { return nil }
                    isDelivering = true
                    hasNews = false
                    demand -= 1
                    return (subscriber, (a, b))
                }
                guard let (subscriber, pair) = next else { return }
                let more = subscriber.receive(pair)
                lock.withLock {
                    isDelivering = false
                    demand += more
                }
            }
        }

        private func end(_ completion: Subscribers.Completion<Target.Failure>, hasValue: Bool) {
            let subscriber: Target? = lock.withLock {
                finished += 1
                if case .finished = completion, finished < 2, hasValue { return nil }
                return self.subscriber
            }
            guard let subscriber else { return }
            cancel()
            subscriber.receive(completion: completion)
        }
    }
#endif
