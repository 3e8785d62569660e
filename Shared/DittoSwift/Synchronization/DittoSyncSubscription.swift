import Foundation

/// A query whose documents this device requests.
public final class DittoSyncSubscription: Hashable, Sendable {
    /// The query's text.
    public let queryString: String
    /// The instance it belongs to.
    public var ditto: Ditto? { owner.ditto }
    /// The arguments as they were given.
    public var queryArguments: [String: Any?]? { given.value }
    /// True if `cancel()` was called or the `Ditto` has closed.
    public var isCancelled: Bool { !(sync?.holds(self) ?? false) }

    let key: [UInt8]
    private weak let sync: DittoSync?
    private let owner: Owner
    private let given: GivenArguments

    init(sync: DittoSync, owner: Owner, key: [UInt8], query: String, given: GivenArguments) {
        self.sync = sync
        self.owner = owner
        self.key = key
        self.given = given
        queryString = query
    }

    /// Ends the subscription. Its documents stay.
    public func cancel() { sync?.cancel(self) }

    /// True for the same subscription.
    public static func == (left: DittoSyncSubscription, right: DittoSyncSubscription) -> Bool {
        left === right
    }
    /// Hashes the identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
