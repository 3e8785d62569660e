import CRDT
import DQL

/// Counts the rows of an answer, which is held and sent whole.
struct AnswerBytes {
    let limit: Int
    private var bytes = 0
    /// Their memory so far, approximately.
    var count: Int { bytes }

    /// Nothing so far, of at most so many bytes.
    init(limit: Int) { self.limit = limit }

    /// Adds a row.
    /// - Throws: `QUERY-0405` beyond the limit.
    mutating func add(_ row: Value) throws(QueryError) {
        bytes += row.heldBytes
        guard bytes <= limit else { throw QueryError(.answerTooLarge, "\(limit)") }
    }

    /// Adds all rows of an answer. Throws as `add`.
    mutating func add(_ rows: [Value]) throws(QueryError) { for row in rows { try add(row) } }
}
