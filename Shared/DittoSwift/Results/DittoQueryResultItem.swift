import CRDT
import DQL
import Foundation
import Synchronization

/// One row of a result.
///
/// A row that is a whole document is a copy of its encoding, one run of bytes. Nothing is decoded before it
/// is needed, and no part of the store is held, however long the item is kept. `dictionary` guards the
/// dictionary that `value` made; `dematerialize()` drops it.
public final class DittoQueryResultItem: Sendable {
    /// The row as the store returned it.
    let kept: KeptRow
    /// The row itself. Computed on each call.
    package var row: Value { kept.decoded }
    private let dictionary = Mutex<Materialized?>(nil)

    // Safe: built from value types in `value`, and never changed afterwards.
    private struct Materialized: @unchecked Sendable {
        let members: [String: Any?]
    }

    init(_ row: KeptRow) { kept = row }
    convenience init(_ row: Value) { self.init(KeptRow(row)) }

    /// The row's fields. A bare value, from `SELECT RAW`, is under the key `$1`.
    public var value: [String: Any?] {
        dictionary.withLock { dictionary in
            if let dictionary { return dictionary }
            let row = row
            let made = Materialized(members: row.objectValue?.plain ?? ["$1": row.plain])
            dictionary = made
            return made
        }.members
    }

    /// The row as a type of the application. Decoded on each call, straight from the row.
    ///
    /// The types that arguments may have come back: a `Date` from RFC 3339 text, `UUID` and `URL` from text,
    /// `Decimal` from a number, `Data` from binary, an enum from its raw value. A bare value, from
    /// `SELECT RAW`, is decoded itself.
    /// - Throws: `storeError(.queryError)` when a field is missing or has another type; the message names the
    ///   field.
    public func decode<T: Decodable>(as type: T.Type) throws -> T {
        do {
            return try ItemDecoder.decode(type, from: row)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// True if the dictionary is in memory.
    public var isMaterialized: Bool { dictionary.withLock { $0 != nil } }
    /// Makes the dictionary now.
    public func materialize() { _ = value }
    /// Drops the dictionary; `value` makes it again.
    public func dematerialize() { dictionary.withLock { $0 = nil } }

    /// The row as CBOR (RFC 8949), deterministically encoded. Computed on each call.
    public func cborData() -> Data { Data(CBOR.encode(row)) }
    /// The row as JSON text, with binary data as base64. Computed on each call.
    public func jsonString() -> String { JSONText.print(row) }
    /// As `jsonString()`, in UTF-8.
    public func jsonData() -> Data { Data(jsonString().utf8) }
}

extension KeptRow {
    /// The decoded row. The store checked its documents on arrival, and SQLite checks their pages. A row
    /// that still cannot be read is empty.
    var decoded: Value { (try? value) ?? .object(ObjectValue()) }
}
