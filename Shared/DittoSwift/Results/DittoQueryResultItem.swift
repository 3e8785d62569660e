import CRDT
import DQL
import Foundation
import Synchronization

/// One row of a result.
///
/// Of a whole document it holds a copy of the encoding, one run of bytes: nothing of it is decoded before
/// somebody asks, and nothing of the store is held, however long it is kept. `dictionary` guards the one that
/// `value` made; `dematerialize()` drops it again.
public final class DittoQueryResultItem: Sendable {
    /// The row as it was handed out.
    let kept: KeptRow
    /// The row itself. Made anew at each call.
    package var row: Value { kept.decoded }
    private let dictionary = Mutex<Materialized?>(nil)

    // Safe: built from value types in `value`, and never changed afterwards.
    private struct Materialized: @unchecked Sendable {
        let members: [String: Any?]
    }

    init(_ row: KeptRow) { kept = row }
    convenience init(_ row: Value) { self.init(KeptRow(row)) }

    /// The row's fields. A bare value, as `SELECT RAW` gives it, stands under the key `$1`.
    public var value: [String: Any?] {
        dictionary.withLock { dictionary in
            if let dictionary { return dictionary }
            let row = row
            let made = Materialized(members: row.objectValue?.plain ?? ["$1": row.plain])
            dictionary = made
            return made
        }.members
    }

    /// Whether the dictionary is in memory.
    public var isMaterialized: Bool { dictionary.withLock { $0 != nil } }
    /// Makes the dictionary now.
    public func materialize() { _ = value }
    /// Drops the dictionary; `value` makes it again.
    public func dematerialize() { dictionary.withLock { $0 = nil } }

    /// The row as CBOR (RFC 8949), deterministically encoded. Made anew at each call.
    public func cborData() -> Data { Data(CBOR.encode(row)) }
    /// The row as JSON text; binary data is base64 in it. Made anew at each call.
    public func jsonString() -> String { JSONText.print(row) }
    /// As `jsonString()`, in UTF-8.
    public func jsonData() -> Data { Data(jsonString().utf8) }
}

extension KeptRow {
    /// The row decoded. The store checked its documents when they came, and SQLite their pages: one that
    /// cannot be read all the same is an empty row.
    var decoded: Value { (try? value) ?? .object(ObjectValue()) }
}
