import CRDT

/// Spec 2.7, arrays.
enum ArrayFunctions {
    static let all: [FunctionDefinition] = [
        FunctionDefinition(
            "array_contains", [.init("array", .array), .init("value")],
            "True if an element equals the value. A null value gives NULL.",
            example: ("array_contains([1, 2], 2.0)", "true")
        ) { arguments in
            guard let collection = arguments[0], let value = arguments[1] else { return nil }
            switch (collection, value) {
            case (.null, _), (.array, .null): return .null
            case (.array(let elements), _): return .bool(elements.contains { ValueOrder.areEqual($0, value) })
            default: return nil
            }
        },
        .strict(
            "array_contains_null", [.init("array", .array)], "True if an element is null.",
            example: ("array_contains_null([1, null])", "true")
        ) { .bool($0[0].arrayValue?.contains(.null) ?? false) },
        .strict(
            "array_length", [.init("array", .array)], "The number of elements.",
            example: ("array_length([1, 2])", "2")
        ) { .int(Int64($0[0].arrayValue?.count ?? 0)) },
    ]
}

/// Spec 2.7, objects.
enum ObjectFunctions {
    static let all: [FunctionDefinition] = [
        .strict(
            "object_keys", [.init("object", .object)], "The keys, in the order of their bytes.",
            example: ("object_keys({'b': 1, 'a': 2})", "['a', 'b']")
        ) { .array($0[0].objectValue?.sorted.map { .string($0.key) } ?? []) },
        .strict(
            "object_values", [.init("object", .object)], "The values, in the order of their keys' bytes.",
            example: ("object_values({'b': 1, 'a': 2})", "[2, 1]")
        ) { .array($0[0].objectValue?.sorted.map(\.value) ?? []) },
        .strict(
            "object_length", [.init("object", .object)], "The number of keys.",
            example: ("object_length({'a': 1})", "1")
        ) { .int(Int64($0[0].objectValue?.count ?? 0)) },
        FunctionDefinition(
            "object_set",
            [.init("object", .object), .init("key", .string), .init("value"), .init("replace", .boolean)],
            optional: 1,
            "The object with the value, which may be null, under the key. MISSING when the key exists"
                + " already, unless `replace` is true.",
            example: ("object_set({'a': 1}, 'b', 2)", "{'a': 1, 'b': 2}")
        ) { arguments in
            guard let value = arguments[2] else { return nil }
            return changed(arguments[0], [arguments[1]], flag: flag(arguments, 3)) { object, keys, replaces in
                guard replaces || object[keys[0]] == nil else { return false }
                object[keys[0]] = value
                return true
            }
        },
        FunctionDefinition(
            "object_unset",
            [.init("object", .object), .init("key", .string), .init("ignore", .boolean)], optional: 1,
            "The object without the key. MISSING when there is no such key, unless `ignore` is true.",
            example: ("object_unset({'a': 1, 'b': 2}, 'a')", "{'b': 2}")
        ) { arguments in
            changed(arguments[0], [arguments[1]], flag: flag(arguments, 2)) { object, keys, ignores in
                guard ignores || object[keys[0]] != nil else { return false }
                object[keys[0]] = nil
                return true
            }
        },
        FunctionDefinition(
            "object_rename", [.init("object", .object), .init("old", .string), .init("new", .string)],
            "The object with one key renamed. MISSING when there is no such key, or when the new one"
                + " exists already.",
            example: ("object_rename({'a': 1}, 'a', 'b')", "{'b': 1}")
        ) { arguments in
            changed(arguments[0], [arguments[1], arguments[2]], flag: false) { object, keys, _ in
                guard let value = object[keys[0]] else { return false }
                if utf8Equal(keys[0], keys[1]) { return true }
                guard object[keys[1]] == nil else { return false }
                object[keys[0]] = nil
                object[keys[1]] = value
                return true
            }
        },
        FunctionDefinition(
            "object_concat", [.init("object", .object)], variadic: true,
            "The objects merged into one, nested ones not merged; of a repeated key, the last value.",
            example: ("object_concat({'a': 1, 'b': 1}, {'b': 2})", "{'a': 1, 'b': 2}")
        ) { arguments, goOn in
            try FunctionDefinition.evaluateStrictly(arguments, [.init("object", .object)]) { values in
                // One by one, so that many copies of an object are not held at the same time.
                .object(
                    try values.compactMap(\.objectValue).reduce(ObjectValue()) { sum, next in
                        try goOn()
                        return sum.isEmpty ? next : ObjectValue(sum.entries + next.entries)
                    })
            }
        },
        .strict(
            "object_size", [.init("object", .object)],
            "The object's size in bytes, approximately: keys and values, and one or two more for each.",
            example: ("object_size({'a': 'xyz'})", "8")
        ) { .int(size(of: $0[0])) },
    ]

    private static func flag(_ arguments: [Value?], _ index: Int) -> Value? {
        arguments.count > index ? arguments[index] : false
    }

    /// The object after a change, which gets the keys and the flag; MISSING when the change refuses.
    private static func changed(
        _ object: Value?, _ keys: [Value?], flag: Value?,
        _ change: (inout ObjectValue, [String], Bool) -> Bool
    ) -> Value? {
        let parameters: [FunctionDefinition.Parameter] =
            [.init("object", .object)] + keys.map { _ in .init("key", .string) } + [.init("flag", .boolean)]
        return FunctionDefinition.evaluateStrictly([object] + keys + [flag], parameters) { values in
            guard var object = values[0].objectValue else { return nil }
            let keys = values.dropFirst().dropLast().map(StringFunctions.text)
            let isSet = values.last?.boolValue ?? false
            return change(&object, keys, isSet) ? .object(object) : nil
        }
    }

    private static func size(of value: Value) -> Int64 {
        switch value {
        case .null, .bool: 1
        case .int, .double: 9
        case .string(let text): Int64(text.utf8.count) + 2
        case .binary(let bytes): Int64(bytes.count) + 2
        case .array(let elements): elements.reduce(1) { $0 + size(of: $1) }
        case .object(let object):
            object.entries.reduce(1) { $0 + Int64($1.key.utf8.count) + 1 + size(of: $1.value) }
        }
    }
}
