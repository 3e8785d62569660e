import CRDT
import DQL
import Dispatch
import Foundation

/// One document, by its id.
@available(*, deprecated, message: "Use DQL with WHERE _id = :id")
public final class DittoPendingIDSpecificOperation: Sendable {
    private let point: LegacyPoint

    init(_ point: LegacyPoint) { self.point = point }

    /// The document now; nil when there is none.
    public func exec() -> DittoDocument? { point.exec().map { DittoDocument($0) } }

    /// Calls the closure once, in a transaction, with the document or with nil when there is none; it has run
    /// when this returns.
    /// - Returns: the closure's changes.
    @discardableResult
    public func update(_ updater: @escaping (DittoMutableDocument?) -> Void) -> [DittoUpdateResult] {
        point.updateDocument(updater)
    }

    /// Removes the document everywhere. Returns false when there is none.
    @discardableResult
    public func remove() -> Bool { point.remove() }

    /// Removes the document from this device only. Returns false when there is none.
    @discardableResult
    public func evict() -> Bool { point.evict() }

    /// Requests the document from others while the returned object is held.
    public func subscribe() -> DittoSubscription {
        DittoSubscription(point.collection, point.query) { try point.parts("SELECT *") }
    }

    /// Calls a closure with the document, or with nil, now and after each change, while the returned object
    /// is held.
    public func observeLocal(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler: @escaping (DittoDocument?, DittoSingleDocumentLiveQueryEvent) -> Void
    ) -> DittoLiveQuery {
        observe(queue, nil) { document, event, signalNext in
            eventHandler(document, event)
            signalNext()
        }
    }

    /// As above, but the next call comes only after the closure's last argument was called.
    public func observeLocalWithNextSignal(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler:
            @escaping (DittoDocument?, DittoSingleDocumentLiveQueryEvent, @escaping DittoSignalNext) -> Void
    ) -> DittoLiveQuery { observe(queue, nil, eventHandler) }

    /// `observeLocal` and `subscribe` in one.
    public func observe(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler: @escaping (DittoDocument?, DittoSingleDocumentLiveQueryEvent) -> Void
    ) -> DittoLiveQuery {
        observe(queue, subscribe()) { document, event, signalNext in
            eventHandler(document, event)
            signalNext()
        }
    }

    private func observe(
        _ queue: DispatchQueue, _ subscription: DittoSubscription?,
        _ handler:
            @escaping (DittoDocument?, DittoSingleDocumentLiveQueryEvent, @escaping DittoSignalNext) -> Void
    ) -> DittoLiveQuery {
        let last = LastRows()
        return DittoLiveQuery(
            point.collection, point.query, queue, subscription, { try point.parts("SELECT *") }
        ) { rows, signalNext in
            let before = last.replace(rows)
            let event = DittoSingleDocumentLiveQueryEvent(
                isInitial: before == nil, oldDocument: before?.first.map { DittoDocument($0) })
            handler(rows.first.map { DittoDocument($0) }, event, signalNext)
        }
    }
}
