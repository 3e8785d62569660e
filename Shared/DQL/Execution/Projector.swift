import CRDT

/// Builds the row that SELECT or RETURNING describes.
struct Projector {
    let projection: BoundProjection
    let evaluator: Evaluator

    func value(_ row: borrowing Row) throws -> Value? {
        switch projection {
        case .raw(let value): return try evaluator.evaluate(value, row)
        case .all(let source): return .object(try document(source, row))
        case .elements(let elements):
            let meter = row.meter
            var held = 0
            defer { if held > 0 { meter?.release(held) } }
            var entries: [ObjectValue.Entry] = []
            entries.reserveCapacity(elements.count)
            for element in elements {
                switch element {
                case .named(let name, let value):
                    if let value = try evaluator.evaluate(value, row) {
                        if elements.count > 1 { try meter?.retain(value, &held) }
                        entries.append((key: name, value: value))
                    }
                case .allFields(let source):
                    // The paths that MISSING names are left out of a document's fields, wherever they stand
                    // in the list.
                    var document = try document(source, row)
                    for case .missing(let path) in elements {
                        document = Self.removing(path[...], from: document)
                    }
                    entries += document.entries
                case .missing(let path):
                    // Removes only from the fields that stand before it.
                    entries = Self.removing(path[...], from: ObjectValue(entries)).entries
                }
            }
            return .object(ObjectValue(entries))
        }
    }

    private func document(_ source: Int, _ row: borrowing Row) throws -> ObjectValue {
        guard let record = row.documents[source] else { return ObjectValue() }
        try row.meter?.work(bytes: record.document.bytes.count)
        return try evaluator.fields.document(record, source: source)
    }

    private static func removing(_ path: ArraySlice<String>, from object: ObjectValue) -> ObjectValue {
        guard let key = path.first else { return object }
        var object = object
        let rest = path.dropFirst()
        if rest.isEmpty {
            object[key] = nil
        } else if case .object(let below)? = object[key] {
            object[key] = .object(removing(rest, from: below))
        }
        return object
    }
}
