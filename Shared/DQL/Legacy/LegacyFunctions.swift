import CRDT

/// The functions of legacy queries, translated to DQL.
enum LegacyFunctions {
    private static let names = [
        "startsWith": "starts_with", "endsWith": "ends_with", "regex": "regexp_like", "keys": "object_keys",
    ]
    private static let known = ["contains", "length", "size"] + names.keys.sorted()

    /// A call as an expression. A function that exists only in DQL becomes a call of it; the analyzer checks
    /// that it exists.
    static func expression(
        _ name: String, _ arguments: [ExpressionSyntax], _ span: SourceSpan, _ source: SourceText
    ) throws(DQLError) -> ExpressionSyntax {
        let kind: ExpressionSyntax.Kind
        switch name {
        case "contains":
            try check(name, arguments, 2, span, source)
            try refuseNesting(name, arguments, span, source)
            kind = contains(arguments[0], arguments[1], span)
        case "length", "size":
            try check(name, arguments, 1, span, source)
            try refuseNesting(name, arguments, span, source)
            kind = length(arguments[0], span)
        case "keys":
            try check(name, arguments, 1, span, source)
            kind = call("object_keys", arguments)
        case "startsWith", "endsWith", "regex":
            try check(name, arguments, 2, span, source)
            kind = call(names[name] ?? name, arguments)
        default:
            guard FunctionTable.lookup(name.lowercased()) != nil else {
                throw source.error(
                    .unknownFunction, "there is no function \(name)", at: span,
                    suggestion: Suggestion.closest(to: name, among: known + FunctionTable.names))
            }
            kind = call(name.lowercased(), arguments)
        }
        let node = ExpressionSyntax(kind, span)
        guard node.depth <= DQLLimits.nestingDepth else {
            throw source.error(
                .nestingTooDeep, "the query nests deeper than \(DQLLimits.nestingDepth) levels", at: span)
        }
        return node
    }

    private static func check(
        _ name: String, _ arguments: [ExpressionSyntax], _ count: Int, _ span: SourceSpan,
        _ source: SourceText
    ) throws(DQLError) {
        guard arguments.count != count else { return }
        throw source.error(
            .wrongArguments, "\(name) takes \(count) argument(s), not \(arguments.count)", at: span)
    }

    /// `contains` and `length` repeat their arguments for each type that these may have: nested in each
    /// other, a few letters would make a tree too large for memory.
    private static func refuseNesting(
        _ name: String, _ arguments: [ExpressionSyntax], _ span: SourceSpan, _ source: SourceText
    ) throws(DQLError) {
        guard arguments.contains(where: asksType) else { return }
        throw source.error(
            .unsupportedClause, "\(name) cannot take the result of contains, length or size", at: span)
    }

    /// Returns whether there is a CASE in the expression; only `byType` makes them.
    private static func asksType(_ expression: ExpressionSyntax) -> Bool {
        if case .conditional = expression.kind { return true }
        return expression.kind.children.contains(where: asksType)
    }

    static func call(_ name: String, _ arguments: [ExpressionSyntax]) -> ExpressionSyntax.Kind {
        .call(CallSyntax(name: name, arguments: arguments, isDistinct: false, isStar: false))
    }

    /// `contains(['a', 'b'], x)` looks for an element, `contains(x, 'a')` for an element or for a part of a
    /// text, depending on the type of x.
    private static func contains(
        _ whole: ExpressionSyntax, _ part: ExpressionSyntax, _ span: SourceSpan
    ) -> ExpressionSyntax.Kind {
        if case .array = whole.kind { return LegacyParser.membership(of: part, in: whole) }
        let text = call("contains", [whole, part])
        if case .literal = whole.kind { return text }
        return byType(
            whole, [("array", call("array_contains", [whole, part]))], otherwise: text, span)
    }

    private static func length(_ value: ExpressionSyntax, _ span: SourceSpan) -> ExpressionSyntax.Kind {
        if case .call(let call) = value.kind, call.name == "object_keys" {
            return self.call("array_length", [value])
        }
        return byType(
            value, [("array", call("array_length", [value])), ("object", call("object_length", [value]))],
            otherwise: call("char_length", [value]), span)
    }

    /// `CASE type(x) WHEN 'array' THEN … ELSE … END`.
    private static func byType(
        _ value: ExpressionSyntax, _ cases: [(type: String, result: ExpressionSyntax.Kind)],
        otherwise: ExpressionSyntax.Kind, _ span: SourceSpan
    ) -> ExpressionSyntax.Kind {
        .conditional(
            operand: ExpressionSyntax(call("type", [value]), span),
            branches: cases.map {
                ExpressionSyntax.Branch(
                    condition: ExpressionSyntax(.literal(.string($0.type)), span),
                    result: ExpressionSyntax($0.result, span))
            },
            otherwise: ExpressionSyntax(otherwise, span))
    }
}
