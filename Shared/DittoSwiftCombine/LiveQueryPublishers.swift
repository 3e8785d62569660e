import DittoSwift

#if canImport(Combine)
    import Combine
#else
    import OpenCombine
#endif

@available(*, deprecated, message: "Use registerObserver of ditto.store")
extension DittoPendingCursorOperation {
    /// Publishes the documents, now and after each change, with the difference from the value before.
    public func liveQueryPublisher() -> LiveQueryPublisher {
        LiveQueryPublisher(
            observation: .each { [self] handler in
                observeLocalWithNextSignal { documents, event, signalNext in
                    handler((documents: documents, event: event), signalNext)
                }
            })
    }

    /// A publisher of a live query, which begins for each subscriber and lasts until it cancels.
    public struct LiveQueryPublisher: Publisher {
        /// The documents, and the difference from the value before.
        public typealias Output = (documents: [DittoDocument], event: DittoLiveQueryEvent)
        /// It never fails.
        public typealias Failure = Never

        let observation: Observation<Output>

        /// Begins a live query for a subscriber.
        public func receive<Target: Subscriber>(
            subscriber: Target
        ) where Target.Input == Output, Target.Failure == Never {
            observation.receive(subscriber: subscriber)
        }
    }
}

@available(*, deprecated, message: "Use registerObserver of ditto.store")
extension DittoPendingIDSpecificOperation {
    /// Publishes the document, or nil, now and after each change.
    public func singleDocumentLiveQueryPublisher() -> SingleDocumentLiveQueryPublisher {
        SingleDocumentLiveQueryPublisher(
            observation: .each { [self] handler in
                observeLocalWithNextSignal { document, event, signalNext in
                    handler((document: document, event: event), signalNext)
                }
            })
    }

    /// A publisher of a live query of one document, which begins for each subscriber and lasts until it
    /// cancels.
    public struct SingleDocumentLiveQueryPublisher: Publisher {
        /// The document, and the difference from the value before.
        public typealias Output = (document: DittoDocument?, event: DittoSingleDocumentLiveQueryEvent)
        /// It never fails.
        public typealias Failure = Never

        let observation: Observation<Output>

        /// Begins a live query for a subscriber.
        public func receive<Target: Subscriber>(
            subscriber: Target
        ) where Target.Input == Output, Target.Failure == Never {
            observation.receive(subscriber: subscriber)
        }
    }
}

@available(*, deprecated, message: "Use fetchAttachmentPublisher of ditto.store")
extension DittoCollection {
    /// As `fetchAttachmentPublisher` of the store. A token that cannot be fetched finishes at once.
    public func fetchAttachmentPublisher(
        attachmentToken: DittoAttachmentToken
    ) -> DittoStore.FetchAttachmentPublisher {
        DittoStore.FetchAttachmentPublisher { [self] handler in
            fetchAttachment(token: attachmentToken, onFetchEvent: handler)
        }
    }
}
