import CRDT
import DQL
import Dispatch
import Foundation

/// All collections of a store.
@available(*, deprecated, message: "Query system:collections")
public final class DittoPendingCollectionsOperation: Sendable {
    private static let statement = "SELECT * FROM system:collections ORDER BY name"
    private let store: DittoStore

    init(_ store: DittoStore) { self.store = store }

    /// The collections now.
    public func exec() -> [DittoCollection] {
        do {
            let rows = try store.engine.readBlocking(Self.statement, ObjectValue(), .legacy).kept
            return collections(rows)
        } catch {
            store.unthrown.report("collections", error)
            return []
        }
    }

    /// Does nothing: a device knows the collections whose documents it has.
    public func subscribe() -> DittoSubscription { DittoSubscription() }

    /// Calls a closure with the collections, now and after each change, while the returned object is held.
    public func observeLocal(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler: @escaping (DittoCollectionsEvent) -> Void
    ) -> DittoLiveQuery {
        observeLocalWithNextSignal(deliverOn: queue) { event, signalNext in
            eventHandler(event)
            signalNext()
        }
    }

    /// As above, but the next call comes only after the closure's last argument was called.
    public func observeLocalWithNextSignal(
        deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        eventHandler: @escaping (DittoCollectionsEvent, @escaping DittoSignalNext) -> Void
    ) -> DittoLiveQuery {
        let last = LastRows()
        return DittoLiveQuery(
            LegacyCollection(store, "system:collections"), "true", queue, nil,
            { LegacyCollection.Parts(statement: Self.statement, arguments: ObjectValue()) }
        ) { [self] rows, signalNext in
            let before = last.replace(rows)
            let difference = DittoDiff(from: before ?? [], to: rows)
            let event = DittoCollectionsEvent(
                isInitial: before == nil, collections: collections(rows),
                oldCollections: collections(before ?? []), insertions: Array(difference.insertions),
                deletions: Array(difference.deletions), updates: Array(difference.updates),
                moves: difference.moves)
            eventHandler(event, signalNext)
        }
    }

    private func collections(_ rows: [KeptRow]) -> [DittoCollection] {
        rows.map { row in
            let name = ((try? row.field("name")) ?? nil)?.stringValue ?? ""
            return DittoCollection(LegacyCollection(store, name))
        }
    }
}

/// The collections of a store, and the difference from the call before.
@available(*, deprecated, message: "Observe system:collections")
public struct DittoCollectionsEvent: Sendable {
    /// True for the first call.
    public let isInitial: Bool
    /// The collections now.
    public let collections: [DittoCollection]
    /// The collections of the call before.
    public let oldCollections: [DittoCollection]
    /// The places of new collections in `collections`.
    public let insertions: [Int]
    /// The places of collections that are gone, in `oldCollections`.
    public let deletions: [Int]
    /// Always empty: a collection has nothing but its name.
    public let updates: [Int]
    /// The collections that changed their place.
    public let moves: [(from: Int, to: Int)]
}
