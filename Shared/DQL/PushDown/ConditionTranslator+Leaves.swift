import CRDT

/// Leaves other than comparisons of a field, and comparisons of what functions make of a field.
extension ConditionTranslator {
    func leaf(_ condition: BoundExpression, _ wanted: Bool) -> Test? {
        switch condition {
        case .field, .documentID:
            guard let field = PushedField(condition, source) else { return nil }
            return .leaf("\(field.value) = \(wanted ? "'true'" : "'false'")", [field.key])
        case .isNull(let operand):
            guard let field = PushedField(operand, source) else { return nil }
            let isNull = Test.leaf("\(field.value) = 'null'", [field.key])
            return wanted ? isNull : Test(sql: "NOT \(isNull.sql)", keys: [field.key])
        case .isMissing(let operand):
            guard let field = PushedField(operand, source) else { return nil }
            return Test(
                sql: wanted ? "\(field.value) IS NULL" : "\(field.value) IS NOT NULL", keys: [field.key])
        case .like(let operand, let matcher):
            guard let field = PushedField(operand, source) else { return nil }
            guard case .prepared(let pattern) = matcher, let text = pattern.caseSensitivePattern else {
                return isText(field)
            }
            guard PushedConstant.isSendable(text) else {
                return wanted ? .neverPlain(field) : .leaf("\(field.type) = 'string'", [field.key])
            }
            return .guarded(
                field, "'string'", "\(field.text) \(wanted ? "LIKE" : "NOT LIKE") \(.text(text))")
        // A regular expression may backtrack without end in the server.
        case .similar(let operand, _): return PushedField(operand, source).map(isText)
        case .quantified(let quantified):
            guard let field = PushedField(quantified.binding.source, source), !quantified.binding.isWithin
            else { return nil }
            return self.quantified(quantified, field, wanted)
        case .call(let call): return predicate(call, wanted)
        default: return nil
        }
    }

    private func isText(_ field: PushedField) -> Test {
        .leaf("\(field.type) = 'string'", [field.key], isExact: false)
    }

    private func quantified(_ quantified: BoundQuantified, _ field: PushedField, _ wanted: Bool) -> Test {
        let isCollection = Test.leaf(
            "\(field.type) IN ('array', 'object')", [field.key], isExact: false)
        guard wanted, quantified.quantifier == .any, !quantified.binding.hasIndex,
            case .comparison(.equal, let left, let right) = quantified.condition
        else { return isCollection }
        let sides: (BoundExpression, Value)
        switch (left, right) {
        case (_, .constant(let value?)): sides = (left, value)
        case (.constant(let value?), _): sides = (right, value)
        default: return isCollection
        }
        guard let json = PushedConstant.json(sides.1), sides.1 != .null else { return isCollection }
        let element: String
        switch sides.0 {
        case .local: element = json
        case .element(.local, .constant(.string(let key)?)) where PushedConstant.isSendable(key):
            element = "{" + JSONText.print(.string(key)) + ":" + json + "}"
        default: return isCollection
        }
        return .leaf(
            "\(field.value) @> \(.text("[" + element + "]"))::jsonb OR \(field.type) = 'object'",
            [field.key], isExact: false)
    }

    // MARK: Functions

    /// A call as a condition.
    private func predicate(_ call: BoundCall, _ wanted: Bool) -> Test? {
        guard let first = call.arguments.first, let field = PushedField(first, source) else { return nil }
        let not: SQL = wanted ? "" : "NOT "
        if call.arguments.count == 1 {
            let type: SQL
            switch call.function.name {
            case "is_number": type = "'number'"
            case "is_string": type = "'string'"
            case "is_boolean": type = "'boolean'"
            default: return nil
            }
            return .leaf(
                wanted
                    ? "\(field.type) = \(type)"
                    : "\(field.type) <> \(type) AND \(field.type) <> 'null'", [field.key])
        }
        guard call.arguments.count == 2, case .constant(let value) = call.arguments[1] else { return nil }
        if call.function.name == "array_contains" {
            return contains(field, value, isIn: false, wanted)
        }
        guard ["contains", "starts_with", "ends_with", "regexp_like"].contains(call.function.name) else {
            return nil
        }
        if call.function.name == "regexp_like" { return isText(field) }
        guard case .string(let part)? = value else { return .never }
        guard PushedConstant.isSendable(part) else {
            return wanted ? .neverPlain(field) : .leaf("\(field.type) = 'string'", [field.key])
        }
        let sql: SQL
        switch call.function.name {
        case "contains": sql = "strpos(\(field.text), \(.text(part))) > 0"
        case "starts_with": sql = "starts_with(\(field.text), \(.text(part)))"
        default: sql = "right(\(field.text), char_length(\(.text(part)))) = \(.text(part))"
        }
        return .guarded(field, "'string'", "\(not)(\(sql))")
    }

    /// A comparison of a function of a field with a constant; `symbol` is the one that has to hold.
    func computed(_ symbol: BinaryOperator, _ operand: BoundExpression, _ value: Value) -> Test? {
        if case .arithmetic(let operation, let left, .constant(let right?)) = operand {
            guard let field = PushedField(left, source) else { return nil }
            return arithmetic(symbol, operation, field, right, value)
        }
        guard case .call(let call) = operand, let first = call.arguments.first,
            let field = PushedField(first, source)
        else { return nil }
        switch call.function.name {
        case "type" where call.arguments.count == 1: return type(symbol, field, value)
        case "char_length" where call.arguments.count == 1:
            return length(symbol, field, "'string'", "char_length(\(field.text))", value)
        case "byte_length" where call.arguments.count == 1:
            return length(symbol, field, "'string'", "octet_length(\(field.text))", value)
        case "array_length" where call.arguments.count == 1:
            return length(symbol, field, "'array'", "jsonb_array_length(\(field.value))", value)
        case "pos" where call.arguments.count == 2:
            guard case .constant(.string(let part)?) = call.arguments[1], PushedConstant.isSendable(part)
            else { return nil }
            return length(symbol, field, "'string'", "strpos(\(field.text), \(.text(part))) - 1", value)
        case "abs" where call.arguments.count == 1: return rounded(symbol, field, "abs", value)
        case "ceil" where call.arguments.count == 1: return rounded(symbol, field, "ceil", value)
        case "floor" where call.arguments.count == 1: return rounded(symbol, field, "floor", value)
        case "lower" where call.arguments.count == 1: return cased(symbol, field, "lower", value)
        case "upper" where call.arguments.count == 1: return cased(symbol, field, "upper", value)
        default: return nil
        }
    }

    /// A whole number that SQL computes from a field of one type.
    private func length(
        _ symbol: BinaryOperator, _ field: PushedField, _ type: SQL, _ length: SQL, _ value: Value
    ) -> Test {
        switch value {
        case .int, .double: break
        default: return .never
        }
        switch Self.numeric(value) {
        case .digits(let digits):
            return .guarded(field, type, "(\(length))::numeric \(symbol.sql) \(.text(digits))::numeric")
        case .beyond(let order):
            return Truth.holds(symbol, order)
                ? .leaf("\(field.type) = \(type)", [field.key]) : .neverPlain(field)
        }
    }

    /// A number that SQL computes exactly. The result of a 64-bit number that overflows is a double, which
    /// rounds: only its digits differ by less than what `numeric` shows, so such constants are left alone.
    private func rounded(
        _ symbol: BinaryOperator, _ field: PushedField, _ function: SQL, _ value: Value
    ) -> Test? {
        switch value {
        case .int, .double: break
        default: return .never
        }
        return length(symbol, field, "'number'", "\(function)(\(field.value)::numeric)", value)
    }

    /// Letters beyond ASCII have other cases in other libraries.
    private func cased(
        _ symbol: BinaryOperator, _ field: PushedField, _ function: SQL, _ value: Value
    ) -> Test? {
        guard case .string(let text) = value else { return .never }
        guard symbol == .equal || symbol == .notEqual, PushedConstant.isSendable(text) else {
            return .leaf("\(field.type) = 'string'", [field.key], isExact: false)
        }
        return .guarded(
            field, "'string'",
            """
            octet_length(\(field.text)) <> char_length(\(field.text)) \
            OR \(function)(\(field.text) COLLATE "C") \(symbol.sql) \(.text(text))
            """, isExact: false)
    }

    /// The name of a type, which every value has, and MISSING too.
    private func type(_ symbol: BinaryOperator, _ field: PushedField, _ value: Value) -> Test? {
        guard case .string(let name) = value else { return .never }
        guard symbol == .equal || symbol == .notEqual else { return nil }
        let found: Test
        switch name {
        case "boolean", "string", "object", "array", "null":
            found = .leaf("\(field.type) = \(.text(name))", [field.key])
        case "integer": found = .guarded(field, "'number'", "scale(\(field.value)::numeric) = 0")
        case "float": found = .guarded(field, "'number'", "scale(\(field.value)::numeric) > 0")
        case "missing": found = Test(sql: "\(field.value) IS NULL", keys: [field.key])
        default: found = Test(sql: "false", keys: [field.key])
        }
        return symbol == .equal ? found : Test(sql: "NOT \(found.sql)", keys: [field.key])
    }

    /// Sums and differences of a field and a whole number. Integers are exact until they overflow; whatever
    /// might be rounded comes along and is judged by the evaluator.
    private func arithmetic(
        _ symbol: BinaryOperator, _ operation: BinaryOperator, _ field: PushedField, _ right: Value,
        _ value: Value
    ) -> Test? {
        guard case .int(let number) = right else { return nil }
        let bound: String
        switch value {
        case .int, .double:
            guard case .digits(let digits) = Self.numeric(value) else { return nil }
            bound = digits
        default: return .never
        }
        let (left, operand): (SQL, SQL) = ("\(field.value)::numeric", "\(.text(String(number)))::numeric")
        let result: SQL
        switch operation {
        case .add: result = "\(left) + \(operand)"
        case .subtract: result = "\(left) - \(operand)"
        case .multiply: result = "\(left) * \(operand)"
        case .divide where number != 0: result = "div(\(left), \(operand))"
        case .modulo where number != 0: result = "\(left) % \(operand)"
        case .divide, .modulo: return .never
        default: return nil
        }
        return .guarded(
            field, "'number'",
            """
            CASE WHEN scale(\(left)) = 0 AND \(result) BETWEEN -9223372036854775808 AND 9223372036854775807 \
            THEN \(result) \(symbol.sql) \(.text(bound))::numeric ELSE true END
            """, isExact: false)
    }
}

extension LikePattern {
    /// The pattern as PostgreSQL reads it, with `\` before what is literal; nil if it ignores the case.
    var caseSensitivePattern: String? {
        guard !ignoresCase else { return nil }
        var bytes: [UInt8] = []
        func add(_ literal: some Sequence<UInt8>) {
            for byte in literal {
                if [0x5C, 0x25, 0x5F].contains(byte) { bytes.append(0x5C) }
                bytes.append(byte)
            }
        }
        for part in parts {
            switch part {
            case .byte(let byte): add(CollectionOfOne(byte))
            case .anyCharacter: bytes.append(0x5F)
            case .anyRun: bytes.append(0x25)
            case .runThrough(let search):
                bytes.append(0x25)
                add(search.part)
            case .runToEnd(let end):
                bytes.append(0x25)
                add(end)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
