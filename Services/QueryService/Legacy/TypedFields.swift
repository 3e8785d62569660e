import CRDT
import DQL

/// The fields of a document with their types, as the calls from before DQL name them (decision 0070):
/// `{"name": {"register": {"value": "Ada"}}, "hits": {"counter": {"value": 5}}}`. The value of a `map` is
/// such an object again. A key that was written with several types has the one that was written last, as in
/// every other answer. The id stands beside the fields.
enum TypedFields {
    /// The fields of a document's encoding.
    /// - Throws: `CRDTError` or `QUERY-0306` for a damaged document.
    static func of(_ document: UnsafeRawBufferPointer) throws -> ObjectValue {
        try fields(of: try DocumentReader(document).root, depth: 0, isRoot: true)
    }

    private static func fields(of map: MapReader, depth: Int, isRoot: Bool) throws -> ObjectValue {
        // Damaged offsets could nest without end.
        guard depth <= CRDT.Limits.nestingDepth else { throw QueryError(.damaged, "it nests too deep") }
        var shown: [(key: String, field: FieldReader)] = []
        try map.forEach { key, field in shown.append((key, field)) }
        var entries: [(key: String, value: Value)] = []
        for (key, field) in shown {
            guard !isRoot || !utf8Equal(key, "_id"), let kind = field.newestKind else { continue }
            let value: Value? =
                switch kind {
                case .map:
                    try field.map().map { .object(try fields(of: $0, depth: depth + 1, isRoot: false)) }
                default: try field.value(kind)
                }
            guard let value else { continue }
            entries.append((key: key, value: [name(of: kind): ["value": value]]))
        }
        return ObjectValue(entries)
    }

    private static func name(of kind: FieldKind) -> String {
        switch kind {
        case .register: "register"
        case .map: "map"
        case .counter: "counter"
        case .attachment: "attachment"
        }
    }
}

/// The form of the rows in an answer.
enum RowForm: Sendable {
    /// As values.
    case values
    /// A document of this collection as its id and `TypedFields`; a row without an id as its value.
    case typedFields(CollectionName)

    /// A row as the answer has it.
    /// - Parameter documents: the snapshot that the row comes from.
    func told(_ row: ResultRow, in documents: any DocumentSource) throws -> Value {
        let value = try row.value
        guard case .typedFields(let collection) = self, let id = value["_id"] else { return value }
        if let fields = row.kept.withDocument({ _, document in Result { try TypedFields.of(document) } }) {
            return ["id": id, "fields": .object(try fields.get())]
        }
        // A row that was sorted is its values only.
        var fields = ObjectValue()
        try documents.lookup(collection, try DocumentID(id)) {
            fields = try TypedFields.of($0.document.bytes)
        }
        return ["id": id, "fields": .object(fields)]
    }
}
