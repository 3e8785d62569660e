import CRDT
import DQL

/// Rows of the list of indexes.
enum IndexRow {
    /// The index over the ids, which every collection has.
    static func ids(of collection: CollectionName) -> ObjectValue {
        var row = IndexDescription(name: "_id", collection: collection, keys: [.init(path: ["_id"])]).row
        row["kind"] = "primary"
        return row
    }

    /// An index of CREATE INDEX.
    static func declared(_ index: IndexDescription) -> ObjectValue {
        var row = index.row
        row["kind"] = "declared"
        return row
    }

    /// An index of a table that an operator has made with SQL.
    static func sql(_ collection: CollectionName, _ name: String) -> ObjectValue {
        ObjectValue([
            (key: "_id", value: .string("\(collection).\(name)")),
            (key: "collection", value: .string(collection.text)), (key: "fields", value: .array([])),
            (key: "name", value: .string(name)), (key: "state", value: "ready"), (key: "kind", value: "sql"),
        ])
    }
}
