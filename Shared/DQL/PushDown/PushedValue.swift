import CRDT

/// A value that SQL computes from the body of a document: a field, or what operators and functions make of
/// fields. SQL computes exactly what the evaluator does, or says by `doubt` for which documents it does not.
///
/// Only `CASE` guards a cast or a division: the server evaluates AND in any order.
struct PushedValue {
    /// The value as jsonb; NULL for MISSING. Integers have no decimals, doubles have some.
    let value: SQL
    /// The name of its type in jsonb; NULL for MISSING.
    let type: SQL
    /// The text of a string. For other values it is their JSON text, or NULL.
    let text: SQL
    let doubt: Doubt

    init(_ value: SQL, type: SQL? = nil, text: SQL? = nil, doubt: Doubt) {
        self.value = value
        self.type = type ?? "jsonb_typeof(\(value))"
        self.text = text ?? "(\(value) #>> '{}')"
        self.doubt = doubt
    }

    /// nil for what SQL cannot compute.
    init?(_ expression: BoundExpression, _ scope: PushScope) {
        // A server computes what is the same for all documents before it asks for their types.
        if case .constant = expression {} else if expression.isSameForAll { return nil }
        let found: PushedValue?
        switch expression {
        case .field, .documentID: found = Self.field(expression, scope)
        case .local(let place): found = scope.locals.indices.contains(place) ? scope.locals[place] : nil
        case .constant(let value): found = Self.constant(value)
        case .negate(let operand):
            found = Self.operand(operand, scope).flatMap { .arithmetic(.subtract, .zero, $0) }
        case .arithmetic(let symbol, let left, let right):
            found = Self.arithmetic(symbol, Self.operand(left, scope), Self.operand(right, scope))
        case .chain(let first, let links):
            found = links.reduce(PushedValue(first, scope)) { result, link in
                Self.arithmetic(link.symbol, result?.bound(scope), Self.operand(link.operand, scope))
            }
        case .element(let base, .constant(let index?)):
            found = Self.operand(base, scope).flatMap { $0.element(index) }
        case .conditional(let operand, let branches, let otherwise):
            found = Self.conditional(operand, branches, otherwise, scope)
        case .isNull, .isMissing: found = Self.condition(expression, scope)
        case .call(let call): found = Self.call(call, scope)
        default: found = nil
        }
        guard let found, found.isModest else { return nil }
        self = found
    }

    /// True if no part of it is too long for a statement. A value made of others has their text several times
    /// in its own, so each value on the way is asked: the last one alone would be found too long too late.
    var isModest: Bool {
        max(value.textBytes, type.textBytes, text.textBytes, doubt.textBytes) <= DQLLimits.pushedTextBytes
    }

    /// A field that is read as undeclared, or the id, as SQL reads it in a body: one arrow per step, since
    /// other operators walk into arrays.
    private static func field(_ expression: BoundExpression, _ scope: PushScope) -> PushedValue? {
        for (source, table) in scope.tables {
            if case .documentID(source) = expression { return field([documentIDField], of: table) }
            if let path = Confinement.field(expression, source) { return field(path, of: table) }
        }
        return nil
    }

    private static func field(_ path: [String], of table: PushedTable) -> PushedValue? {
        guard path.allSatisfy(PushedConstant.isSendable) else { return nil }
        let last = path.count - 1
        var above: SQL = "\(table.prefix)body"
        for name in path[..<last] { above = "\(above)->\(.text(name))" }
        return PushedValue(
            "(\(above)->\(.text(path[last])))", text: "(\(above)->>\(.text(path[last])))",
            doubt: Doubt(keys: [Doubt.Key(path[0], of: table)]))
    }

    static let zero = PushedValue("'0'::jsonb", type: "'number'::text", doubt: Doubt())
    /// A value that is the same for all documents; nil for one that a body cannot hold.
    private static func constant(_ value: Value?) -> PushedValue? {
        switch value {
        case nil: return PushedValue("NULL::jsonb", type: "NULL::text", text: "NULL::text", doubt: Doubt())
        // Their digits say neither that it is a double nor that it is negative.
        case .double(let number)? where number == 0 || number.magnitude >= 0x1p53: return nil
        case .string(let text)? where PushedConstant.isSendable(text):
            return PushedValue(
                "to_jsonb(\(.text(text))::text)", type: "'string'::text", text: "\(.text(text))::text",
                doubt: Doubt())
        // jsonb forgets in which order keys were written, and which double was written as digits.
        case .array?, .object?: return nil
        case let value?:
            return PushedConstant.json(value).map { PushedValue("\(.text($0))::jsonb", doubt: Doubt()) }
        }
    }

    /// A test as a value, for one that is true or false and nothing else.
    private static func condition(_ condition: BoundExpression, _ scope: PushScope) -> PushedValue? {
        guard let test = ConditionTranslator(scope: scope).test(condition), test.isExact else { return nil }
        return PushedValue("to_jsonb(\(test.sql))", type: "'boolean'::text", doubt: test.doubt)
    }

    private func element(_ index: Value) -> PushedValue? {
        switch index {
        // An arrow with a text finds nothing in an array, and one with a number nothing in an object.
        case .string(let key) where PushedConstant.isSendable(key):
            return PushedValue(
                "(\(value)->\(.text(key)))", text: "(\(value)->>\(.text(key)))", doubt: doubt)
        case .int(let place):
            guard let place = Int32(exactly: place) else { return nil }
            let element: SQL = "\(value)->\(.integer(Int64(place)))::int4"
            return PushedValue("(CASE WHEN \(type) = 'array' THEN \(element) END)", doubt: doubt)
        default: return nil
        }
    }

    private static func conditional(
        _ operand: BoundExpression?, _ branches: [BoundExpression.Branch], _ otherwise: BoundExpression,
        _ scope: PushScope
    ) -> PushedValue? {
        guard let last = PushedValue(otherwise, scope) else { return nil }
        var doubt = last.doubt
        var whens: [SQL] = []
        for branch in branches {
            let condition = operand.map { .comparison(.equal, $0, branch.condition) } ?? branch.condition
            guard let test = ConditionTranslator(scope: scope).test(condition), test.isExact,
                let result = PushedValue(branch.result, scope)
            else { return nil }
            whens.append("WHEN \(test.sql) THEN \(result.value)")
            doubt = doubt + test.doubt + result.doubt
        }
        return PushedValue("(CASE \(SQL.joined(whens, " ")) ELSE \(last.value) END)", doubt: doubt)
    }
}

extension PushedValue {
    /// A number in SQL. Only behind a test for the type.
    var number: SQL { "\(value)::numeric" }

    /// An operator on two values: MISSING unless both are of its type, or NULL if one is null.
    static func arithmetic(
        _ symbol: BinaryOperator, _ left: PushedValue?, _ right: PushedValue?
    ) -> PushedValue? {
        guard let left, let right else { return nil }
        let isNull: SQL = """
            WHEN \(left.type) = 'null' AND \(right.type) IS NOT NULL \
            OR \(right.type) = 'null' AND \(left.type) IS NOT NULL THEN 'null'::jsonb
            """
        if symbol == .concat { return concatenation(left, right, orNull: isNull) }
        let doubt = left.doubt + right.doubt
        guard let numbers = PushedNumbers(symbol, left.number, right.number) else { return nil }
        let areNumbers: SQL = "\(left.type) = 'number' AND \(right.type) = 'number'"
        return PushedValue(
            "(CASE WHEN \(areNumbers) THEN \(numbers.result) \(isNull) END)",
            doubt: doubt.or("CASE WHEN \(areNumbers) THEN \(numbers.doubt) END"))
    }
}

extension PushedValue {
    /// Two arguments of `concat`: NULL if one is null and none of another type than text, else MISSING unless
    /// both are texts.
    static func concat(_ left: PushedValue?, _ right: PushedValue?) -> PushedValue? {
        guard let left, let right else { return nil }
        let isNull: SQL = """
            WHEN \(left.type) IN ('string', 'null') AND \(right.type) IN ('string', 'null') \
            THEN 'null'::jsonb
            """
        return concatenation(left, right, orNull: isNull)
    }

    /// The text of two, if they are texts; else what a branch of `CASE` says.
    private static func concatenation(
        _ left: PushedValue, _ right: PushedValue, orNull isNull: SQL
    ) -> PushedValue {
        let areTexts: SQL = "\(left.type) = 'string' AND \(right.type) = 'string'"
        let fits: SQL = """
            octet_length(\(left.text)) + octet_length(\(right.text)) \
            <= \(.integer(Int64(DQLLimits.resultBytes)))
            """
        let text: SQL = "CASE WHEN \(fits) THEN \(left.text) || \(right.text) END"
        return PushedValue(
            "(CASE WHEN \(areTexts) THEN to_jsonb(\(text)) \(isNull) END)",
            text: "(CASE WHEN \(areTexts) THEN \(text) END)", doubt: left.doubt + right.doubt)
    }
}

/// An operator on two numbers, integers or doubles.
private struct PushedNumbers {
    /// The result as jsonb.
    let result: SQL
    /// A test for the numbers whose result SQL does not know.
    let doubt: SQL

    /// nil for an operator that SQL has not.
    init?(_ symbol: BinaryOperator, _ left: SQL, _ right: SQL) {
        let whole: SQL
        let double: SQL?
        switch symbol {
        case .add: (whole, double) = ("\(left) + \(right)", "\(left)::float8 + \(right)::float8")
        case .subtract: (whole, double) = ("\(left) - \(right)", "\(left)::float8 - \(right)::float8")
        case .multiply: (whole, double) = ("\(left) * \(right)", "\(left)::float8 * \(right)::float8")
        case .divide: (whole, double) = ("div(\(left), \(right))", "\(left)::float8 / \(right)::float8")
        case .modulo: (whole, double) = ("\(left) % \(right)", nil)
        default: return nil
        }
        let areWhole: SQL = "scale(\(left)) = 0 AND scale(\(right)) = 0"
        // An integer that overflows becomes a double.
        let fits: SQL = "\(whole) BETWEEN -9223372036854775808 AND 9223372036854775807"
        var result: SQL = "CASE WHEN \(areWhole) THEN CASE WHEN \(fits) THEN to_jsonb(\(whole)) END"
        var doubt: SQL = "CASE WHEN \(areWhole) THEN NOT (\(fits))"
        if let double {
            // The server raises an error where a result is too large for a double, or a product or quotient
            // too small. It computes that of rough documents too. A sum is asked for its size before.
            let isSum = symbol == .add || symbol == .subtract
            let isSafe: SQL =
                isSum
                ? "abs(\(whole)) < 1e14"
                : """
                (\(left) = 0 OR abs(\(left)) BETWEEN 1e-150 AND 1e150) \
                AND (\(right) = 0 OR abs(\(right)) BETWEEN 1e-150 AND 1e150)
                """
            // Zero may be negative, and beyond 1e15 the shortest text has an exponent.
            let isPlain: SQL = isSum ? "\(double) <> 0" : "\(double) <> 0 AND abs(\(double)) < 1e15"
            let text: SQL = "(\(double))::text"
            result = """
                \(result) ELSE CASE WHEN \(isSafe) THEN CASE WHEN \(isPlain) THEN CASE \
                WHEN \(double) = trunc(\(double)) THEN (\(text) || '.0')::jsonb \
                ELSE \(text)::jsonb END END END END
                """
            doubt = "\(doubt) ELSE CASE WHEN \(isSafe) THEN NOT (\(isPlain)) ELSE true END END"
        } else {
            result = "\(result) END"
            doubt = "\(doubt) ELSE true END"
        }
        if symbol == .divide || symbol == .modulo {
            result = "CASE WHEN \(right) = 0 THEN 'null'::jsonb ELSE \(result) END"
            doubt = "CASE WHEN \(right) = 0 THEN false ELSE \(doubt) END"
        }
        self.result = result
        self.doubt = doubt
    }
}

extension BoundExpression {
    /// True if it reads nothing of a document.
    fileprivate var isSameForAll: Bool {
        switch self {
        case .field, .conflicts, .documentID, .document, .slot, .local: return false
        default:
            var isSame = true
            _ = mapChildren { child in
                isSame = isSame && child.isSameForAll
                return child
            }
            return isSame
        }
    }
}
