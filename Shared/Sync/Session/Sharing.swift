import CRDT
import DQL

/// A query followed by sessions, as registered by a server: equal queries have one number. It is followed
/// as long as the object lives.
public protocol FollowedQuery: AnyObject, Sendable {
    /// The query's number.
    var number: UInt64 { get }
}

/// State shared by the sessions of one database, so that a write costs by its matches and not by its
/// listeners: each distinct query is evaluated once for a change, and frames for several receivers are
/// encoded once.
///
/// `follow` is called before the first page of a subscription is read. Operations folded before are in the
/// page; for later ones `FoldedOperation.Change.matches` includes the query.
public struct Sharing: Sendable {
    let follow: @Sendable (SubscriptionQuery) -> any FollowedQuery
    let encode: @Sendable (_ selection: [UInt64], _ make: () -> [UInt8]) -> [UInt8]

    /// - Parameters:
    ///   - follow: registers a query and returns its number.
    ///   - encode: the bytes of a frame, made by `make` now or earlier for an equal selection. A selection
    ///     names the frame's position, its operations, and the changes and forms of each.
    public init(
        follow: @escaping @Sendable (SubscriptionQuery) -> any FollowedQuery,
        encode: @escaping @Sendable (_ selection: [UInt64], _ make: () -> [UInt8]) -> [UInt8]
    ) {
        self.follow = follow
        self.encode = encode
    }
}
