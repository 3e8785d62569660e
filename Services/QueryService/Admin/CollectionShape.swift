import CRDT
import DQL

/// The keys that documents of a collection have: how often, of which kinds, and an example.
///
/// Keys within objects are found too, up to `Limits.shapeDepth`; elements of arrays are not. There are at
/// most `Limits.shapeKeys`: later ones are left out.
struct CollectionShape {
    private struct Key {
        var count = 0
        var kinds: [String: Int] = [:]
        var example: Value?
    }

    private var keys: [[String]: Key] = [:]
    private(set) var documents = 0
    private(set) var isCut = false

    /// Adds a document.
    mutating func add(_ record: DocumentRecord) throws {
        documents += 1
        note(["_id"], Self.kind(of: record.id.value), record.id.value)
        try add(record.document.root, [])
    }

    private mutating func add(_ map: MapReader, _ path: [String]) throws {
        var fields: [(key: String, kind: String, value: Value?, map: MapReader?)] = []
        try map.forEach { (key, field) throws(CRDTError) in
            switch field.newestKind {
            case .map?: fields.append((key, "object", nil, try field.map()))
            case .counter?: fields.append((key, "counter", try field.counter(), nil))
            case .attachment?: fields.append((key, "attachment", try field.attachment(), nil))
            case .register?:
                let value = try field.register() ?? .null
                fields.append((key, Self.kind(of: value), value, nil))
            case nil: break
            }
        }
        for field in fields {
            let place = path + [field.key]
            note(place, field.kind, field.value)
            guard place.count < Limits.shapeDepth else { continue }
            if let map = field.map { try add(map, place) }
            if field.kind == "object", case .object(let object)? = field.value { add(object, place) }
        }
    }

    private mutating func add(_ object: ObjectValue, _ path: [String]) {
        for entry in object.entries {
            let place = path + [entry.key]
            note(place, Self.kind(of: entry.value), entry.value)
            if place.count < Limits.shapeDepth, case .object(let inner) = entry.value { add(inner, place) }
        }
    }

    private mutating func note(_ path: [String], _ kind: String, _ value: Value?) {
        guard keys[path] != nil || keys.count < Limits.shapeKeys else {
            isCut = true
            return
        }
        keys[path, default: Key()].count += 1
        keys[path]?.kinds[kind, default: 0] += 1
        guard keys[path]?.example == nil, let value else { return }
        keys[path]?.example = Self.example(value)
    }

    /// The value, if it is short; the beginning of a long text. Nil for what shows nothing.
    private static func example(_ value: Value) -> Value? {
        switch value {
        case .null, .object: nil
        case .string(let text) where text.count > Limits.shownExampleCharacters:
            .string(text.prefix(Limits.shownExampleCharacters) + "…")
        case .array: JSONText.print(value).count <= Limits.shownExampleCharacters ? value : nil
        case .binary(let run): .string("\(run.count) bytes")
        default: value
        }
    }

    private static func kind(of value: Value) -> String {
        switch value {
        case .null: "null"
        case .bool: "boolean"
        case .int: "integer"
        case .double: "float"
        case .string: "string"
        case .binary: "binary"
        case .array: "array"
        case .object: "object"
        }
    }

    /// The keys, the most frequent first.
    var rows: [Value] {
        keys.sorted { left, right in
            left.value.count != right.value.count
                ? left.value.count > right.value.count
                : left.key.lexicographicallyPrecedes(right.key) { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        }.map { path, key in
            let kinds = key.kinds.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
            return [
                "path": .array(path.map { .string($0) }), "count": .int(Int64(key.count)),
                "kinds": .object(ObjectValue(kinds.map { (key: $0.key, value: .int(Int64($0.value))) })),
                "example": key.example ?? .null,
            ]
        }
    }
}
