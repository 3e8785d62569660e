import CRDT
import DQL

/// The reports of small peers, as their last connections have left them: documents of the collection
/// `__small_peer_info`, without what the application adds (`metadata`).
struct PeerReports {
    /// The collection, as DittoSwift names it.
    private static let collection: CollectionName = "__small_peer_info"

    private let after: String
    private let limit: Int
    /// The first so many keys, with their rows.
    private var found: [(key: String, row: Value)] = []
    /// True if there are more.
    private(set) var isCut = false

    /// - Parameter after: the key before the first; empty for all.
    init(after: String, limit: Int) { (self.after, self.limit) = (after, limit) }

    /// Reads all reports, and keeps a page of them in memory.
    mutating func read(_ documents: some ProjectedDocuments, check: () throws -> Void) throws {
        try documents.scan(Self.collection) { record in
            try check()
            guard let key = record.id.value.stringValue, key > after else { return true }
            found.append((key, Self.row(key, try record.document.root.value())))
            if found.count > 2 * limit { keepFirst() }
            return true
        }
        keepFirst()
    }

    private mutating func keepFirst() {
        found.sort { $0.key < $1.key }
        guard found.count > limit else { return }
        found.removeLast(found.count - limit)
        isCut = true
    }

    /// In the order of the keys.
    var rows: [Value] { found.map(\.row) }

    private static func row(_ key: String, _ report: ObjectValue) -> Value {
        let sdk = report["sdk"]?.objectValue
        let updated = report["last_update"]?.intValue.map { UInt64(clamping: $0) }
        return [
            "peer": .string(key), "deviceName": report["device_name"] ?? .null, "os": report["os"] ?? .null,
            "sdk": sdk?["version"] ?? .null,
            "reportedAt": updated.map { .string(RFC3339.text(clamping: $0)) } ?? .null,
            "subscriptions": report["local_subscriptions"] ?? [],
            "collections": report["collections"] ?? .null,
        ]
    }
}
