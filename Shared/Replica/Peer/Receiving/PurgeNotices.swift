import CRDT

/// Purges that the server has told of documents, until their states come after them: in one message a state
/// takes the place of what was purged, and a document without one is dropped.
struct PurgeNotices {
    private var vectors: [DocumentKey: [UInt8]] = [:]
    private var order: [DocumentKey] = []

    /// A purge was told: everything of the document that the encoded vector covers.
    mutating func note(_ key: DocumentKey, _ vector: [UInt8]) {
        if vectors.updateValue(vector, forKey: key) == nil { order.append(key) }
    }

    /// The state of a document has come: hands out the purge told before it.
    mutating func take(_ key: DocumentKey) -> [UInt8]? { vectors.removeValue(forKey: key) }

    /// Hands out the purges after which no state came, in the order in which they were told.
    mutating func takeRest() -> [(key: DocumentKey, vector: [UInt8])] {
        defer { self = PurgeNotices() }
        return order.compactMap { key in vectors[key].map { (key, $0) } }
    }
}
