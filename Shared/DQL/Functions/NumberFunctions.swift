import CRDT

/// Spec 2.5.
enum NumberFunctions {
    static let all: [FunctionDefinition] = [
        .strict(
            "abs", [.init("number", .number)],
            "The number without its sign; a float if the result does not fit 64 bits.",
            example: ("abs(-2)", "2")
        ) { arguments in
            switch arguments[0] {
            case .int(let number): number < 0 ? Arithmetic.negate(arguments[0]) : arguments[0]
            case .double(let number): .double(number.magnitude)
            default: nil
            }
        },
        .strict(
            "ceil", [.init("number", .number)],
            "The number rounded up. A float stays a float, an integer an integer.",
            example: ("ceil(1.2)", "2.0")
        ) { rounded($0[0], .up) },
        .strict(
            "floor", [.init("number", .number)],
            "The number rounded down. A float stays a float, an integer an integer.",
            example: ("floor(1.8)", "1.0")
        ) { rounded($0[0], .down) },
    ]

    private static func rounded(_ value: Value, _ rule: FloatingPointRoundingRule) -> Value {
        if case .double(let number) = value { .double(number.rounded(rule)) } else { value }
    }
}
