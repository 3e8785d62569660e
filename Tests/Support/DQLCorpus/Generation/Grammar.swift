import CRDT
import DQL

/// Writes random expressions. A copy writes the same ones: so a relation gets one statement in two styles.
struct Grammar {
    /// The style in which an expression is written.
    struct Style {
        /// Literals become parameters.
        var bindsLiterals = false
        /// The prefix of paths, with its dot.
        var qualifier = ""
    }

    var choices: Choices
    var style = Style()
    /// The arguments of the expressions written so far.
    private(set) var arguments = ObjectValue()

    init(_ choices: Choices) { self.choices = choices }

    // MARK: Leaves

    /// A value as a literal, or as a parameter if the style says so or no literal exists for it.
    mutating func literal(_ value: Value) -> String {
        if style.bindsLiterals { return bind(value) }
        switch value {
        case .null: return "NULL"
        case .bool(let flag): return flag ? "TRUE" : "false"
        // Parentheses, because two minus signs would begin a comment.
        case .int(let number): return number < 0 ? "(\(number))" : "\(number)"
        case .double(let number):
            guard number.isFinite else { return bind(value) }
            return number.sign == .minus ? "(\(JSONText.print(value)))" : JSONText.print(value)
        case .string(let text): return Self.quoted(text)
        case .binary: return bind(value)
        case .array(let elements):
            var parts: [String] = []
            for element in elements { parts.append(literal(element)) }
            return "[\(parts.joined(separator: ", "))]"
        case .object(let object):
            var parts: [String] = []
            for entry in object.entries { parts.append("\(Self.quoted(entry.key)): \(literal(entry.value))") }
            return "{\(parts.joined(separator: ", "))}"
        }
    }

    /// A new parameter with its argument.
    mutating func bind(_ value: Value) -> String {
        let name = "p\(arguments.count + 1)"
        arguments = ObjectValue(arguments.entries + [(key: name, value: value)])
        return ":\(name)"
    }

    static func quoted(_ text: String) -> String {
        var result = "'"
        for scalar in text.unicodeScalars {
            switch scalar {
            case "'", "\\": result += "\\\(scalar)"
            case "\u{0}": result += "\\u0000"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "'"
    }

    mutating func path() -> String {
        style.qualifier
            + choices.pick([
                "a", "b", "n", "s", "q", "o.x", "l", "o.y", "o", "_id", "l[0]", "o.deep.z", "o['x']", "`x y`",
                "l[-1]", "nothing", "a.x", "o.deep",
            ])
    }

    mutating func scalar() -> String { literal(choices.scalar()) }

    mutating func value() -> String { literal(choices.value()) }

    // MARK: Operands

    /// An expression of any type.
    mutating func operand(depth: Int = 2) -> String {
        guard depth > 0 else { return choices.below(3) < 2 ? path() : scalar() }
        switch choices.below(12) {
        case 0...4: return path()
        case 5, 6: return value()
        case 7: return arithmetic(depth: depth - 1)
        case 8, 9: return call(depth: depth - 1)
        case 10: return "CASE WHEN \(predicate(depth: depth - 1)) THEN \(path()) ELSE \(scalar()) END"
        default: return "(\(predicate(depth: depth - 1)))"
        }
    }

    mutating func arithmetic(depth: Int = 1) -> String {
        let left = operand(depth: depth)
        let symbol = choices.pick(["+", "-", "*", "/", "%", "||", "<<", ">>"])
        let right = operand(depth: depth)
        return choices.below(6) < 5 ? "(\(left) \(symbol) \(right))" : "(-\(left))"
    }

    private mutating func call(depth: Int) -> String {
        let name = choices.pick([
            "type", "lower", "upper", "abs", "char_length", "array_length", "coalesce", "nullif", "ifmissing",
            "substr", "concat", "floor", "object_length", "nvl", "serialize_json", "missingif", "byte_length",
        ])
        let first = operand(depth: depth)
        switch name {
        case "coalesce", "nullif", "ifmissing", "concat", "nvl", "missingif":
            return "\(name)(\(first), \(operand(depth: depth)))"
        case "substr": return "substr(\(first), \(choices.below(3)))"
        default: return "\(name)(\(first))"
        }
    }

    // MARK: Predicates

    /// A condition; mostly true, false or unknown, and sometimes not a truth value.
    mutating func predicate(depth: Int = 3) -> String {
        guard depth > 0, choices.below(3) > 0 else { return simplePredicate() }
        let left = predicate(depth: depth - 1)
        switch choices.below(5) {
        case 0: return "(\(left)) AND (\(predicate(depth: depth - 1)))"
        case 1: return "(\(left)) OR (\(predicate(depth: depth - 1)))"
        case 2: return "NOT (\(left))"
        case 3: return "(\(left)) XOR (\(predicate(depth: depth - 1)))"
        default:
            return "CASE WHEN \(left) THEN \(simplePredicate()) ELSE \(simplePredicate()) END"
        }
    }

    mutating func simplePredicate() -> String {
        let value = operand(depth: 1)
        let negation = choices.chance(30) ? "NOT " : ""
        switch choices.below(13) {
        case 0...3: return "\(value) \(comparison()) \(operand(depth: 1))"
        case 4: return "\(value) \(negation)IN (\(list().joined(separator: ", ")))"
        case 5:
            let collection = choices.below(2) == 0 ? path() : literal(choices.pick(ValuePool.arrays))
            return "\(value) \(negation)IN \(collection)"
        case 6: return "\(value) \(negation)BETWEEN \(scalar()) AND \(operand(depth: 1))"
        case 7: return "\(path()) \(negation)\(choices.pick(["LIKE", "ILIKE"])) \(pattern())"
        case 8: return "\(value) IS \(negation)\(choices.pick(["NULL", "MISSING"]))"
        case 9: return "\(choices.pick(["is_number", "is_string", "isnull", "ismissing"]))(\(value))"
        case 10:
            let name = choices.pick(["contains", "starts_with", "ends_with", "array_contains"])
            return "\(name)(\(path()), \(scalar()))"
        case 11:
            let quantifier = choices.pick(["ANY", "EVERY", "ANY AND EVERY"])
            return "\(quantifier) v IN \(path()) SATISFIES v \(comparison()) \(scalar()) END"
        default: return path()
        }
    }

    mutating func comparison() -> String { choices.pick(["=", "<", ">", "!=", "<=", ">=", "<>", "=="]) }

    mutating func pattern() -> String { literal(.string(choices.pick(ValuePool.patterns))) }

    /// Elements of an IN list: values, and sometimes a path.
    mutating func list() -> [String] {
        var elements = [scalar()]
        while elements.count < 12, choices.chance(70) {
            elements.append(choices.below(6) < 5 ? value() : path())
        }
        return elements
    }

    // MARK: Clauses

    /// A condition on groups.
    mutating func groupPredicate() -> String {
        let argument = path()
        let aggregate = choices.pick([
            "COUNT(*)", "COUNT(\(argument))", "MIN(\(argument))", "MAX(\(argument))",
            "COUNT(DISTINCT \(argument))",
        ])
        let test = "\(aggregate) \(comparison()) \(scalar())"
        return choices.chance(40) ? "(\(test)) AND NOT (MAX(\(path())) IS MISSING)" : test
    }

    /// Terms of ORDER BY; not a total order.
    mutating func order() -> String {
        var terms: [String] = []
        while terms.isEmpty || (terms.count < 3 && choices.chance(40)) {
            terms.append(
                operand(depth: 1) + choices.pick(["", " DESC", " ASC"])
                    + choices.pick(["", " NULLS FIRST", " NULLS LAST"]))
        }
        return terms.joined(separator: ", ")
    }
}
