import CRDT

/// Spec 2.8.
enum ConditionalFunctions {
    static let all: [FunctionDefinition] = [
        FunctionDefinition(
            "coalesce", aliases: ["ifmissingornull"], [.init("value")], variadic: true,
            "The first value that is neither missing nor null; else NULL.",
            example: ("coalesce(null, 2)", "2")
        ) { $0.first { isKnown($0) } ?? .null },
        FunctionDefinition(
            "nvl", [.init("value"), .init("replacement"), .init("replacement")], optional: 1,
            "With two arguments, the replacement when the value is missing or null, else the value; with"
                + " three, the second when the value is known, else the third.",
            example: ("nvl(null, 2)", "2")
        ) { arguments in
            guard arguments.count > 2 else { return isKnown(arguments[0]) ? arguments[0] : arguments[1] }
            return isKnown(arguments[0]) ? arguments[1] : arguments[2]
        },
        FunctionDefinition(
            "ifmissing", [.init("value")], variadic: true,
            "The first value that is not missing; else MISSING.",
            example: ("ifmissing(MISSING, null)", "null")
        ) { $0.first { $0 != nil } ?? Value?.none },
        FunctionDefinition(
            "ifnull", [.init("value")], variadic: true,
            "The first value that is not null (MISSING if that value is missing); else NULL.",
            example: ("ifnull(null, 2)", "2")
        ) { $0.first { $0 != .some(.null) } ?? .null },
        FunctionDefinition(
            "ismissing", [.init("value")], "True if it is missing.", example: ("ismissing(null)", "false")
        ) { .bool($0[0] == nil) },
        FunctionDefinition(
            "isnull", [.init("value")], "True if it is null; missing is not.",
            example: ("isnull(null)", "true")
        ) { .bool($0[0] == .some(.null)) },
        FunctionDefinition(
            "ismissingornull", [.init("value")], "True if it is missing or null.",
            example: ("ismissingornull(null)", "true")
        ) { .bool(!isKnown($0[0])) },
        FunctionDefinition(
            "nullif", [.init("value"), .init("other")], "NULL when the two are equal, else the value.",
            example: ("nullif(1, 1.0)", "null")
        ) { Truth.compare(.equal, $0[0], $0[1]) == .some(true) ? .null : $0[0] },
        FunctionDefinition(
            "missingif", [.init("value"), .init("other")], "MISSING when the two are equal, else the value.",
            example: ("type(missingif(1, 1))", "'missing'")
        ) { Truth.compare(.equal, $0[0], $0[1]) == .some(true) ? Value?.none : $0[0] },
        FunctionDefinition(
            "decode", [.init("value"), .init("case"), .init("result")], variadic: true,
            "The result after the first case that equals the value (null equals null, and missing missing;"
                + " a string never equals a number); else an unpaired last argument, else NULL.",
            example: ("decode(2, 1, 'one', 2, 'two', 'many')", "'two'")
        ) { arguments in
            for index in stride(from: 1, to: arguments.count - 1, by: 2)
            where ValueOrder.areEqual(arguments[0], arguments[index]) {
                return arguments[index + 1]
            }
            return arguments.count.isMultiple(of: 2) ? arguments[arguments.count - 1] : .null
        },
    ]

    private static func isKnown(_ value: Value?) -> Bool {
        guard let value else { return false }
        if case .null = value { return false }
        return true
    }
}
