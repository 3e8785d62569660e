// Combine exists on Apple's platforms only, so elsewhere the publisher is a name with a hint: there it comes
// with the product DittoSwiftCombine, like the other publishers of the original.
#if canImport(Combine)
    import Combine

    extension DiskUsage {
        /// Publishes the present usage and each later one; the same values as `observe(eventHandler:)`.
        public func diskUsagePublisher() -> DiskUsagePublisher { DiskUsagePublisher(self) }

        /// A publisher of the disk usage, which never fails.
        public struct DiskUsagePublisher: Publisher {
            /// The present usage.
            public typealias Output = DiskUsageItem
            /// It never fails.
            public typealias Failure = Never

            private let usage: DiskUsage

            init(_ usage: DiskUsage) { self.usage = usage }

            /// Begins an observation for a subscriber, which lasts until it cancels.
            public func receive<Target: Subscriber>(
                subscriber: Target
            ) where Target.Input == DiskUsageItem, Target.Failure == Never {
                subscriber.receive(subscription: Watch(usage, subscriber))
            }
        }

        /// One subscriber's observation. Values that come while it demands none are dropped: each replaces
        /// the earlier one.
        private final class Watch<Target: Subscriber>: Subscription
        where Target.Input == DiskUsageItem, Target.Failure == Never {
            private let subscriber: Target
            private let usage: DiskUsage
            private let lock = NSRecursiveLock()
            private var demand = Subscribers.Demand.none
            private var handle: DiskUsageObserverHandle?

            init(_ usage: DiskUsage, _ subscriber: Target) {
                self.usage = usage
                self.subscriber = subscriber
            }

            func request(_ more: Subscribers.Demand) {
                lock.withLock {
                    demand += more
                    guard handle == nil else { return }
                    handle = usage.observe { [weak self] in self?.deliver($0) }
                }
            }

            func cancel() {
                let handle = lock.withLock { self.handle }
                handle?.stop()
            }

            private func deliver(_ item: DiskUsageItem) {
                let isWanted = lock.withLock {
                    guard demand > 0 else { return false }
                    demand -= 1
                    return true
                }
                guard isWanted else { return }
                let more = subscriber.receive(item)
                lock.withLock { demand += more }
            }
        }
    }
#else
    extension DiskUsage {
        /// Publishes the disk usage, where there is Combine.
        @available(
            *, unavailable, message: "import DittoSwiftCombine, or use observe(eventHandler:)"
        )
        public func diskUsagePublisher() -> Never { preconditionFailure("unavailable") }
    }
#endif
