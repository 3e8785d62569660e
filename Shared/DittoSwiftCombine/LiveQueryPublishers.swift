import DittoSwift

#if canImport(Combine)
    import Combine
#else
    import OpenCombine
#endif

@available(*, deprecated, message: "Use registerObserver of ditto.store")
extension DittoPendingCursorOperation {
    /// Publishes the documents, now and after each change, with the difference from the value before.
    public func liveQueryPublisher() -> LiveQueryPublisher { LiveQueryPublisher(self) }

    /// A publisher of a live query.
    public struct LiveQueryPublisher: Publisher {
        /// The documents, and the difference from the value before.
        public typealias Output = (documents: [DittoDocument], event: DittoLiveQueryEvent)
        /// It never fails.
        public typealias Failure = Never

        private let operation: DittoPendingCursorOperation

        init(_ operation: DittoPendingCursorOperation) { self.operation = operation }

        /// Begins a live query for a subscriber, which lasts until it cancels.
        public func receive<Target: Subscriber>(
            subscriber: Target
        ) where Target.Input == Output, Target.Failure == Never {
            Observation<Output> { [operation] deliver in
                let query = operation.observeLocalWithNextSignal { documents, event, signalNext in
                    deliver(
                        Observation<Output>.Delivery(
                            value: (documents: documents, event: event), taken: signalNext))
                }
                return { query.stop() }
            }.receive(subscriber: subscriber)
        }
    }
}

@available(*, deprecated, message: "Use registerObserver of ditto.store")
extension DittoPendingIDSpecificOperation {
    /// Publishes the document, or nil, now and after each change.
    public func singleDocumentLiveQueryPublisher() -> SingleDocumentLiveQueryPublisher {
        SingleDocumentLiveQueryPublisher(self)
    }

    /// A publisher of a live query of one document.
    public struct SingleDocumentLiveQueryPublisher: Publisher {
        /// The document, and the difference from the value before.
        public typealias Output = (document: DittoDocument?, event: DittoSingleDocumentLiveQueryEvent)
        /// It never fails.
        public typealias Failure = Never

        private let operation: DittoPendingIDSpecificOperation

        init(_ operation: DittoPendingIDSpecificOperation) { self.operation = operation }

        /// Begins a live query for a subscriber, which lasts until it cancels.
        public func receive<Target: Subscriber>(
            subscriber: Target
        ) where Target.Input == Output, Target.Failure == Never {
            Observation<Output> { [operation] deliver in
                let query = operation.observeLocalWithNextSignal { document, event, signalNext in
                    deliver(
                        Observation<Output>.Delivery(
                            value: (document: document, event: event), taken: signalNext))
                }
                return { query.stop() }
            }.receive(subscriber: subscriber)
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
