import CRDT
import DQL
import Foundation

/// A query whose documents this device requests from others, while somebody holds it.
@available(*, deprecated, message: "Use DittoSyncSubscription of ditto.sync.registerSubscription")
public final class DittoSubscription: Sendable {
    /// The query, in the language of the 4.x API.
    public let query: String
    /// The name of its collection.
    public let collectionName: String
    /// Nil for a query that cannot be subscribed to.
    private let subscription: DittoSyncSubscription?

    /// A subscription to nothing.
    init() {
        query = ""
        collectionName = ""
        subscription = nil
    }

    init(
        _ collection: LegacyCollection, _ query: String, _ parts: () throws -> LegacyCollection.Parts
    ) {
        self.query = query
        collectionName = collection.name.text
        do {
            let parts = try parts()
            subscription = try collection.store.owner.ditto?.sync.registerSubscription(
                parts.statement, parts.arguments, GivenArguments(parts.arguments.plain))
        } catch {
            collection.store.unthrown.report("subscribe", error)
            subscription = nil
        }
    }

    deinit { cancel() }

    /// Ends it. Its documents stay.
    public func cancel() { subscription?.cancel() }
}
