import CRDT

/// Spec 2.5 and 2.7: types and conversions.
enum TypeFunctions {
    static let all: [FunctionDefinition] = [
        FunctionDefinition(
            "type", [.init("value")],
            "The type's name: boolean, string, integer, float, object, array, binary, null or missing.",
            example: ("type(1.5)", "'float'")
        ) { .string($0[0]?.typeName ?? "missing") },
        FunctionDefinition(
            "json_type", [.init("value")],
            "The type's name in JSON: boolean, string, number, object, array, binary or null; null for a"
                + " missing value too.",
            example: ("json_type(1.5)", "'number'")
        ) { arguments in
            let name = arguments[0]?.typeName ?? "null"
            return .string(name == "integer" || name == "float" ? "number" : name)
        },
        FunctionDefinition(
            "is_number", [.init("value")], "True if it is a number; null gives NULL, missing MISSING.",
            example: ("is_number(1)", "true")
        ) { test($0[0]) { $0.typeName == "integer" || $0.typeName == "float" } },
        FunctionDefinition(
            "is_string", [.init("value")], "True if it is a string; null gives NULL, missing MISSING.",
            example: ("is_string('a')", "true")
        ) { test($0[0]) { $0.typeName == "string" } },
        FunctionDefinition(
            "is_boolean", [.init("value")], "True if it is a boolean; null gives NULL, missing MISSING.",
            example: ("is_boolean(1)", "false")
        ) { test($0[0]) { $0.typeName == "boolean" } },
        FunctionDefinition(
            "cast", [.init("value"), .init("type", .string)],
            "The value as string, integer, float, boolean or binary; MISSING when impossible, NULL stays"
                + " NULL. Also written CAST(value AS type).",
            example: ("cast('12', 'integer')", "12")
        ) { arguments in
            switch (arguments[0], arguments[1]) {
            case (let value?, .string(let type)?): Conversion.cast(value, to: type)
            case (_?, .null?): .null
            default: nil
            }
        },
        .contextual(
            "deserialize_json", [.init("text", .string)],
            "The value of the JSON text; MISSING when it is not JSON, or has an integer beyond 64 bits.",
            example: ("deserialize_json('[1]')", "[1]"), check: jsonProblem
        ) { arguments, _ in try? JSONText.parse(StringFunctions.text(arguments[0])) },
        FunctionDefinition(
            "serialize_json", [.init("value")], "The value as JSON text; MISSING stays MISSING.",
            example: ("serialize_json([1])", "'[1]'")
        ) { arguments in arguments[0].flatMap { StringFunctions.bounded(JSONText.print($0)) } },
        FunctionDefinition(
            "request_info", [],
            "The known facts about the statement's request, as an object; MISSING when nothing"
                + " is known.",
            example: ("type(request_info())", "'object'"),
            inContext: { _, context in context.request.map { .object($0) } }),
    ]

    private static func test(_ value: Value?, _ check: (Value) -> Bool) -> Value? {
        guard let value else { return nil }
        if case .null = value { return .null }
        return .bool(check(value))
    }

    /// A problem with a JSON text that is written out.
    @Sendable
    private static func jsonProblem(_ arguments: [KnownArgument]) -> ArgumentProblem? {
        guard let text = arguments.first?.text else { return nil }
        do {
            _ = try JSONText.parse(text)
            return nil
        } catch {
            return ArgumentProblem(
                index: 0, message: "takes JSON; \(error.message): always MISSING", isError: false)
        }
    }
}
