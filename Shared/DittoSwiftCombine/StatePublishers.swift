import DittoSwift

#if canImport(Combine)
    import Combine
#else
    import OpenCombine
#endif

extension DittoPresence {
    /// Publishes the present graph and each later one.
    public func graphPublisher() -> GraphPublisher { GraphPublisher(self) }

    /// A publisher of the presence graph.
    public struct GraphPublisher: Publisher {
        /// The present graph.
        public typealias Output = DittoPresenceGraph
        /// It never fails.
        public typealias Failure = Never

        private let presence: DittoPresence

        init(_ presence: DittoPresence) { self.presence = presence }

        /// Begins an observation for a subscriber, which lasts until it cancels.
        public func receive<Target: Subscriber>(
            subscriber: Target
        ) where Target.Input == DittoPresenceGraph, Target.Failure == Never {
            Observation { deliver in
                let observer = presence.observe { deliver(Observation.Delivery(value: $0)) }
                return { observer.stop() }
            }.receive(subscriber: subscriber)
        }
    }
}

// On Apple's platforms DittoSwift has it.
#if !canImport(Combine)
    extension DiskUsage {
        /// Publishes the present usage and each later one; the same values as `observe(eventHandler:)`.
        public func diskUsagePublisher() -> DiskUsagePublisher { DiskUsagePublisher(self) }

        /// A publisher of the disk usage.
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
                Observation { deliver in
                    let handle = usage.observe { deliver(Observation.Delivery(value: $0)) }
                    return { handle.stop() }
                }.receive(subscriber: subscriber)
            }
        }
    }
#endif

extension Ditto {
    /// Publishes the peers around this one, now and after each change.
    @available(*, deprecated, message: "Use presence.graphPublisher()")
    public func remotePeersPublisher() -> AnyPublisher<[DittoRemotePeer], Never> {
        Observation { [self] deliver in
            let observer = observePeers { deliver(Observation.Delivery(value: $0)) }
            return { observer.stop() }
        }.eraseToAnyPublisher()
    }
}
