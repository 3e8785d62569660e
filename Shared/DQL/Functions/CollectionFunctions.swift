import CRDT

/// Spec 2.7, arrays.
enum ArrayFunctions {
    static let all: [FunctionDefinition] = [
        FunctionDefinition(
            "array_contains", [.init("array", .array), .init("value")],
            "Whether an element equals the value. A null value gives NULL.",
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
            "array_length", [.init("array", .array)], "How many elements there are.",
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
            "object_length", [.init("object", .object)], "How many keys there are.",
            example: ("object_length({'a': 1})", "1")
        ) { .int(Int64($0[0].objectValue?.count ?? 0)) },
    ]
}
