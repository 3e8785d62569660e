import CRDT
import DQL
import Dispatch
import Foundation

/// A query on its way to its documents.
///
/// Without `sort` the documents come by their ids. A query that cannot run gives no documents and calls
/// nothing; the log says why.
@available(*, deprecated, message: "Use DQL: ditto.store.execute(query:arguments:)")
public final class DittoPendingCursorOperation: Sendable {
    private let cursor: LegacyCursor

    init(_ cursor: LegacyCursor) { self.cursor = cursor }

    /// Limits the number of documents; a negative number is no limit. The last call counts.
    @discardableResult
    public func limit(_ limit: Int32) -> Self {
        cursor.limit(limit)
        return self
    }

    /// Skips the first documents. The last call counts.
    @discardableResult
    public func offset(_ offset: UInt32) -> Self {
        cursor.offset(offset)
        return self
    }

    /// Sorts by an expression. Further calls sort documents that the earlier ones do not part.
    @discardableResult
    public func sort(_ query: String, direction: DittoSortDirection = .ascending) -> Self {
        cursor.sort(query, isDescending: direction == .descending)
        return self
    }

    /// The documents now.
    public func exec() -> [DittoDocument] { cursor.exec().map { DittoDocument($0) } }

    /// Calls the closure once, with all documents, in one transaction; it has run when this returns.
    /// - Returns: the changes of each document.
    @discardableResult
    public func update(
        _ updater: @escaping ([DittoMutableDocument]) -> Void
    ) -> [DittoDocumentID: [DittoUpdateResult]] {
        cursor.updateDocuments(updater)
    }

    /// Removes the documents everywhere. Returns their ids.
    @discardableResult
    public func remove() -> [DittoDocumentID] { cursor.remove() }

    /// Removes the documents from this device only. Returns their ids. A subscription brings them back.
    @discardableResult
    public func evict() -> [DittoDocumentID] { cursor.evict() }

    /// Requests the documents from others while the returned object is held. Order and window do not count.
    public func subscribe() -> DittoSubscription {
        if !cursor.selection.isPlain {
            cursor.collection.store.unthrown.warn(
                "subscribe",
                SDKError(
                    .windowedSubscriptionUnsupported,
                    "a subscription takes no notice of sort, limit and offset: it requests all documents of"
                        + " the query"))
        }
        return DittoSubscription(cursor.collection, cursor.query) { try cursor.subscriptionParts() }
    }

    /// Calls a closure with the documents, now and after each change, while the returned object is held.
    /// - Parameters:
    ///   - queue: the queue of the calls; the default is that of `DittoStore.registerObserver`.
    ///   - eventHandler: called with the documents and the difference from the call before.
    public func observeLocal(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler: @escaping ([DittoDocument], DittoLiveQueryEvent) -> Void
    ) -> DittoLiveQuery {
        observe(queue, nil) { documents, event, signalNext in
            eventHandler(documents, event)
            signalNext()
        }
    }

    /// As above, but the next call comes only after the closure's last argument was called.
    public func observeLocalWithNextSignal(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler: @escaping ([DittoDocument], DittoLiveQueryEvent, @escaping DittoSignalNext) -> Void
    ) -> DittoLiveQuery { observe(queue, nil, eventHandler) }

    /// `observeLocal` and `subscribe` in one.
    public func observe(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler: @escaping ([DittoDocument], DittoLiveQueryEvent) -> Void
    ) -> DittoLiveQuery {
        observe(queue, subscribe()) { documents, event, signalNext in
            eventHandler(documents, event)
            signalNext()
        }
    }

    private func observe(
        _ queue: DispatchQueue, _ subscription: DittoSubscription?,
        _ handler: @escaping ([DittoDocument], DittoLiveQueryEvent, @escaping DittoSignalNext) -> Void
    ) -> DittoLiveQuery {
        let last = LastRows()
        return DittoLiveQuery(
            cursor.collection, cursor.query, queue, subscription, { try cursor.parts(.select) }
        ) { rows, signalNext in
            let event = DittoLiveQueryEvent(from: last.replace(rows), to: rows)
            handler(rows.map { DittoDocument($0) }, event, signalNext)
        }
    }
}

@available(*, deprecated, message: "Use UPDATE … SET")
extension LegacyCursor {
    /// Runs the application's closure over the documents.
    func updateDocuments(
        _ updater: ([DittoMutableDocument]) -> Void
    ) -> [DittoDocumentID: [DittoUpdateResult]] {
        let (ids, entries) = update { updater($0.map { DittoMutableDocument($0) }) }
        var results: [DittoDocumentID: [DittoUpdateResult]] = [:]
        for id in ids { results[id] = [] }
        for entry in entries { results[entry.id, default: []].append(DittoUpdateResult(entry)) }
        return results
    }
}

@available(*, deprecated, message: "Use UPDATE … SET")
extension DittoUpdateResult {
    init(_ entry: LegacyUpdate.Entry) {
        switch entry.change {
        case .set(let value): self = .set(docID: entry.id, path: entry.path, value: value.plain)
        case .removed: self = .removed(docID: entry.id, path: entry.path)
        case .incremented(let amount):
            self = .incremented(docID: entry.id, path: entry.path, amount: amount)
        }
    }
}

@available(*, deprecated, message: "Use UPDATE … SET")
extension LegacyPoint {
    /// Runs the application's closure over the document, or nil.
    func updateDocument(_ updater: (DittoMutableDocument?) -> Void) -> [DittoUpdateResult] {
        update { updater($0.map { DittoMutableDocument($0) }) }.map { DittoUpdateResult($0) }
    }
}
