import CRDT
import DQL
import Replica
import Sync

/// A subscription that a peer holds, and how it asks its server for it.
package struct LiveSubscription: Sendable {
    /// The query with its arguments.
    package let query: SubscriptionQuery
    private let statement: String
    private let arguments: ObjectValue

    /// Checks the statement.
    package init(statement: String, arguments: ObjectValue) throws {
        query = try SubscriptionQuery(statement: statement, arguments: arguments, isRestricted: false)
        self.statement = statement
        self.arguments = arguments
    }

    /// The canonical key, under which the store keeps the cursor.
    package var key: [UInt8] { query.canonicalKey }

    /// The request with what the store remembers.
    package func request(from replica: Replica) throws -> SubscriptionRequest {
        SubscriptionRequest(
            key: key, statement: statement, arguments: .object(arguments),
            cursor: try replica.cursor(of: key) ?? reconcilingCursor(replica))
    }

    /// For a subscription without a cursor over a collection of which the store holds documents already
    /// (from another query, or from before an eviction): a position that no log has. The server then
    /// reconciles from the start and names what does not match, so that nothing stale stays (rules 14 and
    /// 18).
    private func reconcilingCursor(_ replica: Replica) throws -> LogPosition? {
        guard try replica.holdsDocuments(in: query.collection),
            let nowhere = LogID(bytes: Array(repeating: 0, count: LogID.byteCount))
        else { return nil }
        return LogPosition(logID: nowhere, offset: 0, hash: 0)
    }
}
