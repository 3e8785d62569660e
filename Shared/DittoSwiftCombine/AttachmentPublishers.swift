import DittoSwift
import Foundation

#if canImport(Combine)
    import Combine
#else
    import OpenCombine
#endif

extension DittoStore {
    /// Fetches an attachment for each subscriber; finishes when it is complete or was deleted.
    /// - Parameter attachmentToken: the token's dictionary, as it stands in the document.
    public func fetchAttachmentPublisher(attachmentToken: [String: Any?]) -> FetchAttachmentPublisher {
        FetchAttachmentPublisher { [self] handler in
            try? fetchAttachment(token: attachmentToken, onFetchEvent: handler)
        }
    }

    /// As above, for a token of the 4.x API.
    @available(*, deprecated, message: "Pass the token's dictionary, as it stands in the document")
    public func fetchAttachmentPublisher(attachmentToken: DittoAttachmentToken) -> FetchAttachmentPublisher {
        FetchAttachmentPublisher { [self] handler in
            try? fetchAttachment(token: attachmentToken, onFetchEvent: handler)
        }
    }

    /// A publisher of the events of a fetch.
    public struct FetchAttachmentPublisher: Publisher {
        /// The bytes that came so far, or the end.
        public typealias Output = DittoAttachmentFetchEvent
        /// It never fails.
        public typealias Failure = Never

        /// How far a fetch has come.
        public struct Progress: Equatable, Sendable {
            /// The part that is there, from 0 to 1.
            public let percentage: Double
            /// The bytes that are there.
            public let downloadedBytes: UInt64
            /// All bytes.
            public let totalBytes: UInt64
        }

        private let fetch: (@escaping (DittoAttachmentFetchEvent) -> Void) -> DittoAttachmentFetcher?

        init(_ fetch: @escaping (@escaping (DittoAttachmentFetchEvent) -> Void) -> DittoAttachmentFetcher?) {
            self.fetch = fetch
        }

        /// Begins a fetch for a subscriber, which ends when it cancels.
        public func receive<Target: Subscriber>(
            subscriber: Target
        ) where Target.Input == DittoAttachmentFetchEvent, Target.Failure == Never {
            Observation { [fetch] deliver in
                let fetcher = fetch { event in
                    let isLast = if case .progress = event { false } else { true }
                    deliver(Observation.Delivery(value: event, isLast: isLast))
                }
                return fetcher.map { fetcher in { fetcher.stop() } }
            }.receive(subscriber: subscriber)
        }

        /// Publishes only the progress.
        public func progress() -> AnyPublisher<Progress, Never> {
            compactMap { event -> Progress? in
                guard case .progress(let downloaded, let total) = event else { return nil }
                return Progress(
                    percentage: total > 0 ? Double(downloaded) / Double(total) : 1,
                    downloadedBytes: downloaded, totalBytes: total)
            }.eraseToAnyPublisher()
        }

        /// Publishes only the complete attachment.
        public func completed() -> AnyPublisher<DittoAttachment, Never> {
            compactMap { event -> DittoAttachment? in
                guard case .completed(let attachment) = event else { return nil }
                return attachment
            }.eraseToAnyPublisher()
        }
    }
}
