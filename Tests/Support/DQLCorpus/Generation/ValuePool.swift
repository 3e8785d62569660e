import CRDT

/// The values in generated documents and statements: few, so that they meet often, and each a value with
/// which something could go wrong.
enum ValuePool {
    static let integers: [Value] = [
        1, 0, 2, -1, 3, 7, 9_007_199_254_740_993, .int(.max), .int(.min), -9_007_199_254_740_993,
    ]

    static let floats: [Value] = [
        1.0, 0.0, 2.0, -0.0, 1.5, -3.5, .double(.nan), 9_007_199_254_740_992.0, 0x1p63, -0x1p63, 1e300,
        -1e300,
        .double(.infinity), .double(-.infinity), .double(.leastNonzeroMagnitude),
    ]

    /// Empty, letters of both cases, wildcards and escapes of LIKE, one character in two forms, one with a
    /// longer lower case, several scalars that look like one, a zero byte, the last scalar of all.
    static let strings: [String] = [
        "a", "", "b", "B", "aXb", "a%b", "%", "_", "\\", "it's", "\"", "\u{E9}", "e\u{301}", "ß", "SS", "İ",
        "👨‍👩‍👧", "a\u{0}b", "中", "\u{10FFFF}", "12", "true", "aab", "ba",
    ]

    static let binaries: [Value] = [
        .binary([0x61]), .binary([]), .binary([0]), .binary([0xFF, 0]), .binary([0x61, 0x62]),
    ]

    static let arrays: [Value] = [
        [], [1], [1.0], ["a"], [.null], [2, 1], [[1], ["x": 1]], [true, .double(.nan)], [1, "a", .null],
        ["a", "b"],
    ]

    static let objects: [Value] = [
        .object(ObjectValue()), ["x": 1], ["x": 1.0], ["y": "a"], ["x": .null, "y": [1]], ["x": ["z": 2]],
        ["x": "a", "deep": ["z": 1]], ["\u{E9}": 1, "x y": 2],
    ]

    /// Values that are compared with one another: numbers of both types, strings, everything.
    static let comparable: [[Value]] = [
        integers + floats, strings.map { .string($0) }, arrays, objects,
        [.null, false, true] + binaries + [1, 1.0, "a", [1], ["x": 1]],
    ]

    /// Ids, unique also by `=`.
    static let ids: [Value] = [
        1, 2, 3, "a", true, 4, "\u{E9}", "e\u{301}", [1, "b"], ["k": 1], -5, "B", .int(.max), [], "", false,
    ]

    /// Patterns of LIKE, with a backslash as escape.
    static let patterns: [String] = [
        "a", "%", "a%", "%b", "_", "%a%", "", "a\\%b", "\\_", "__", "%X%", "\u{E9}", "_\u{301}", "%\\\\",
        "ß%", "i̇", "a_b", "%%", "_%_",
    ]
}

extension Choices {
    /// A number or string: the usual values of fields.
    mutating func scalar() -> Value {
        switch below(8) {
        case 0, 1: pick(ValuePool.integers)
        case 2, 3: .string(pick(ValuePool.strings))
        case 4: pick(ValuePool.floats)
        case 5: .bool(below(2) == 1)
        case 6: .null
        default: pick(ValuePool.binaries)
        }
    }

    /// A value of any type.
    mutating func value() -> Value {
        switch below(10) {
        case 8: pick(ValuePool.arrays)
        case 9: pick(ValuePool.objects)
        default: scalar()
        }
    }
}
