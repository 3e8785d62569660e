// Combine has these operators; OpenCombine 0.14 does not.
#if !canImport(Combine)
    import OpenCombine

    extension Publisher {
        /// Publishes the values of both publishers as they come. Finishes when both have; fails with the
        /// first failure.
        public func merge<Other: Publisher>(with other: Other)
            -> Publishers.MergeMany<
                AnyPublisher<Output, Failure>
            > where Other.Output == Output, Other.Failure == Failure
        {
            Publishers.MergeMany(eraseToAnyPublisher(), other.eraseToAnyPublisher())
        }

        /// As above, for three publishers.
        public func merge<Second: Publisher, Third: Publisher>(
            with second: Second, _ third: Third
        ) -> Publishers.MergeMany<AnyPublisher<Output, Failure>>
        where
            Second.Output == Output, Second.Failure == Failure, Third.Output == Output,
            Third.Failure == Failure
        {
            Publishers.MergeMany(
                eraseToAnyPublisher(), second.eraseToAnyPublisher(), third.eraseToAnyPublisher())
        }
    }

    extension Publishers {
        /// The values of several publishers as they come.
        public struct MergeMany<Upstream: Publisher>: Publisher {
            /// The values of each.
            public typealias Output = Upstream.Output
            /// The failure of any.
            public typealias Failure = Upstream.Failure

            /// The merged publishers.
            public let publishers: [Upstream]

            /// Merges publishers.
            public init(_ upstream: Upstream...) { publishers = upstream }

            /// Merges publishers.
            public init<Upstreams: Swift.Sequence>(_ upstream: Upstreams)
            where Upstreams.Element == Upstream { publishers = Array(upstream) }

            /// Subscribes to all for a subscriber, in their order.
            public func receive<Target: Subscriber>(
                subscriber: Target
            ) where Target.Input == Output, Target.Failure == Failure {
                publishers.publisher.setFailureType(to: Failure.self).flatMap { $0 }
                    .receive(subscriber: subscriber)
            }
        }
    }
#endif
