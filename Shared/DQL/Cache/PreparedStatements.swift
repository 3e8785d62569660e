import CRDT
import Synchronization

/// The prepared statements of one owner. Thread-safe.
public final class PreparedStatements: Sendable {
    private let cache: Mutex<StatementCache>

    /// A cache of at most `capacity` statements.
    public init(capacity: Int = DQLLimits.cachedStatements) {
        cache = Mutex(StatementCache(capacity: capacity))
    }

    /// The prepared statement of a text; compiled outside of the lock if it is not cached.
    public func prepare(_ text: String) throws(DQLError) -> PreparedStatement {
        if let known = cache.withLock({ $0.lookup(text) }) { return known }
        let statement = try PreparedStatement(text)
        cache.withLock { $0.insert(statement) }
        return statement
    }

    /// The prepared statement of a text if it is cached.
    public func known(_ text: String) -> PreparedStatement? { cache.withLock { $0.lookup(text) } }

    /// Changes the number of cached statements.
    public func resize(to capacity: Int) { cache.withLock { $0.resize(to: capacity) } }

    /// The rows of `system:shared_statements`.
    public var rows: [ObjectValue] { cache.withLock { $0.rows } }
}
