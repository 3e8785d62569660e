import Foundation

/// A query whose documents this device wants.
public final class DittoSyncSubscription: Hashable, Sendable {
    /// The query's text.
    public let queryString: String
    /// The instance it belongs to.
    public var ditto: Ditto? { owner.ditto }
    /// The arguments as they were given.
    public var queryArguments: [String: Any?]? { given.value }
    /// Whether `cancel()` was called, or the `Ditto` has closed.
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

    /// Ends the subscription. What it brought stays.
    public func cancel() { sync?.cancel(self) }

    /// Same subscription.
    public static func == (left: DittoSyncSubscription, right: DittoSyncSubscription) -> Bool {
        left === right
    }
    /// By identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
