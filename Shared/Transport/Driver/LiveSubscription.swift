import CRDT
import DQL
import Replica
import Sync

/// A peer's subscription, and its request to the server.
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

    /// The request to another small peer, under a session's key, with the stored data of that one's feed.
    func request(
        as key: [UInt8], cursor: LogPosition?, rights: [UInt8]?, resume: [UInt8]?, holds: Bool
    ) -> SubscriptionRequest {
        SubscriptionRequest(
            key: key, statement: statement, arguments: .object(arguments), cursor: cursor, rights: rights,
            resume: resume, holds: holds)
    }

    /// The request with the stored data of its key.
    package func request(from replica: PeerReplica) throws -> SubscriptionRequest {
        SubscriptionRequest(
            key: key, statement: statement, arguments: .object(arguments),
            cursor: try replica.cursor(of: key), rights: try replica.rights(of: key),
            resume: try replica.resumption(of: key),
            // From another query, or from before an eviction: the server is told which, so that it sends none
            // of them again and nothing stale stays (rules 14 and 18).
            holds: try replica.holdsDocuments(in: query.collection))
    }
}
