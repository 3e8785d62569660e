import CRDT
import Foundation
import Synchronization

/// One row of a result.
///
/// It holds the row compactly and makes the dictionary when `value` is first asked for. `dictionary` guards
/// the one made; `dematerialize()` drops it again.
public final class DittoQueryResultItem: Sendable {
    /// The row itself.
    package let row: Value
    private let dictionary = Mutex<Materialized?>(nil)

    // Safe: built from value types in `value`, and never changed afterwards.
    private struct Materialized: @unchecked Sendable {
        let members: [String: Any?]
    }

    init(_ row: Value) { self.row = row }

    /// The row's fields. A bare value, as `SELECT RAW` gives it, stands under the key `$1`.
    public var value: [String: Any?] {
        dictionary.withLock { dictionary in
            if let dictionary { return dictionary }
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
