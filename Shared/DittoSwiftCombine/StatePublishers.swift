import DittoSwift

#if canImport(Combine)
    import Combine
#else
    import OpenCombine
#endif

extension DittoPresence {
    /// Publishes the present graph and each later one.
    public func graphPublisher() -> GraphPublisher {
        GraphPublisher(observation: .newest(of: { [self] in observe(didChangeHandler: $0) }) { $0.stop() })
    }

    /// A publisher of the presence graph.
    public struct GraphPublisher: Publisher {
        /// The present graph.
        public typealias Output = DittoPresenceGraph
        /// It never fails.
        public typealias Failure = Never

        let observation: Observation<DittoPresenceGraph>

        /// Begins an observation for a subscriber, which lasts until it cancels.
        public func receive<Target: Subscriber>(
            subscriber: Target
        ) where Target.Input == Output, Target.Failure == Never {
            observation.receive(subscriber: subscriber)
        }
    }
}

// On Apple's platforms DittoSwift has it.
#if !canImport(Combine)
    extension DiskUsage {
        /// Publishes the present usage and each later one; the same values as `observe(eventHandler:)`.
        public func diskUsagePublisher() -> DiskUsagePublisher {
            DiskUsagePublisher(
                observation: .newest(of: { [self] in observe(eventHandler: $0) }) { $0.stop() })
        }

        /// A publisher of the disk usage.
        public struct DiskUsagePublisher: Publisher {
            /// The present usage.
            public typealias Output = DiskUsageItem
            /// It never fails.
            public typealias Failure = Never

            let observation: Observation<DiskUsageItem>

            /// Begins an observation for a subscriber, which lasts until it cancels.
            public func receive<Target: Subscriber>(
                subscriber: Target
            ) where Target.Input == Output, Target.Failure == Never {
                observation.receive(subscriber: subscriber)
            }
        }
    }
#endif

extension Ditto {
    /// Publishes the peers around this one, now and after each change.
    @available(*, deprecated, message: "Use presence.graphPublisher()")
    public func remotePeersPublisher() -> AnyPublisher<[DittoRemotePeer], Never> {
        Observation.newest(of: { [self] in observePeers(callback: $0) }, stop: { $0.stop() })
            .eraseToAnyPublisher()
    }
}
