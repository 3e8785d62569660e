import CRDT

extension ExpressionSyntax {
    /// The expression as a value; see `Statement.jsonValue`.
    public var jsonValue: Value {
        switch kind {
        case .literal(let value): .node("literal", ("value", value))
        case .missing: .node("missing")
        case .parameter(let name): .node("parameter", ("name", .string(name.text)))
        case .name(let name): .node("name", ("name", .string(name.text)))
        case .member(let base, let name):
            .node("member", ("of", base.jsonValue), ("name", .string(name.text)))
        case .element(let base, let index): .node("element", ("of", base.jsonValue), ("at", index.jsonValue))
        case .negate(let operand): .node("negate", ("operand", operand.jsonValue))
        case .not(let operand): .node("not", ("operand", operand.jsonValue))
        case .binary(let symbol, let left, let right):
            .node(
                "binary", ("operator", .string(symbol.rawValue)), ("left", left.jsonValue),
                ("right", right.jsonValue))
        case .chain(let first, let links):
            .node(
                "chain", ("first", first.jsonValue),
                (
                    "rest",
                    .array(
                        links.map {
                            ["operator": .string($0.symbol.rawValue), "operand": $0.operand.jsonValue]
                        })
                ))
        case .and(let operands): .node("and", ("operands", .list(operands)))
        case .or(let operands): .node("or", ("operands", .list(operands)))
        case .array(let elements): .node("array", ("elements", .list(elements)))
        case .object(let entries):
            .node(
                "object",
                ("entries", .array(entries.map { ["key": .string($0.key), "value": $0.value.jsonValue] })))
        case .call(let call):
            .node(
                "call",
                [("function", .string(call.name)), ("arguments", call.isStar ? "*" : .list(call.arguments))]
                    + (call.isDistinct ? [("distinct", true)] : []))
        case .quantified, .arrayComprehension, .objectComprehension: comprehensionJSON
        default: predicateJSON
        }
    }

    private var predicateJSON: Value {
        switch kind {
        case .between(let value, let low, let high, let negated):
            .node(
                "between",
                [("value", value.jsonValue), ("low", low.jsonValue), ("high", high.jsonValue)]
                    + Self.not(negated))
        case .inList(let value, let elements, let negated):
            .node("in", [("value", value.jsonValue), ("list", .list(elements))] + Self.not(negated))
        case .inCollection(let value, let collection, let negated):
            .node(
                "in", [("value", value.jsonValue), ("collection", collection.jsonValue)] + Self.not(negated))
        case .like(let value, let pattern, let escape, let ignoresCase, let negated):
            .node(
                ignoresCase ? "ilike" : "like",
                [("value", value.jsonValue), ("pattern", pattern.jsonValue)]
                    + (escape.map { [("escape", $0.jsonValue)] } ?? []) + Self.not(negated))
        case .similar(let value, let pattern, let escape, let negated):
            .node(
                "similar",
                [("value", value.jsonValue), ("pattern", pattern.jsonValue)]
                    + (escape.map { [("escape", $0.jsonValue)] } ?? []) + Self.not(negated))
        case .subquery(let query): .node("subquery", ("query", query.jsonValue))
        case .exists(let query): .node("exists", ("query", query.jsonValue))
        case .inSubquery(let value, let query, let negated):
            .node("in", [("value", value.jsonValue), ("query", query.jsonValue)] + Self.not(negated))
        case .isTest(let value, let test, let negated):
            .node("is", [("value", value.jsonValue), ("test", .string(test.rawValue))] + Self.not(negated))
        case .conditional(let operand, let branches, let otherwise):
            .node(
                "case",
                (operand.map { [("operand", $0.jsonValue)] } ?? [])
                    + [
                        (
                            "branches",
                            .array(
                                branches.map {
                                    ["when": $0.condition.jsonValue, "then": $0.result.jsonValue]
                                })
                        )
                    ] + (otherwise.map { [("else", $0.jsonValue)] } ?? []))
        default: preconditionFailure("not a predicate")
        }
    }

    private var comprehensionJSON: Value {
        switch kind {
        case .quantified(let quantified):
            .node(
                "quantified",
                [("quantifier", .string(quantified.quantifier.rawValue))] + quantified.binding.jsonEntries
                    + [("satisfies", quantified.condition.jsonValue)])
        case .arrayComprehension(let array):
            .node(
                "arrayFor",
                [("result", array.result.jsonValue)] + array.binding.jsonEntries + Self.when(array.condition))
        case .objectComprehension(let object):
            .node(
                "objectFor",
                [("key", object.key.jsonValue), ("value", object.value.jsonValue)]
                    + object.binding.jsonEntries + Self.when(object.condition))
        default: preconditionFailure("not a comprehension")
        }
    }

    private static func when(_ condition: ExpressionSyntax?) -> [(String, Value)] {
        condition.map { [("when", $0.jsonValue)] } ?? []
    }

    private static func not(_ negated: Bool) -> [(String, Value)] { negated ? [("negated", true)] : [] }
}

extension BindingSyntax {
    var jsonEntries: [(String, Value)] {
        (index.map { [("index", .string($0.text))] } ?? [])
            + [("variable", .string(value.text)), (isWithin ? "within" : "in", source.jsonValue)]
    }
}
