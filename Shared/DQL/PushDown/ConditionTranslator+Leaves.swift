import CRDT

/// Leaves other than comparisons of a field, and comparisons of what functions make of a field.
extension ConditionTranslator {
    func leaf(_ condition: BoundExpression, _ wanted: Bool) -> Test? {
        switch condition {
        case .field, .documentID:
            guard let field = PushedValue(condition, scope) else { return nil }
            return .leaf("\(field.value) = \(wanted ? "'true'" : "'false'")", field.doubt)
        case .isNull(let operand):
            guard let field = PushedValue(operand, scope) else { return nil }
            let isNull = Test.leaf("\(field.value) = 'null'", field.doubt)
            return wanted ? isNull : Test(sql: "NOT \(isNull.sql)", doubt: field.doubt)
        case .isMissing(let operand):
            guard let field = PushedValue(operand, scope) else { return nil }
            return Test(
                sql: wanted ? "\(field.value) IS NULL" : "\(field.value) IS NOT NULL", doubt: field.doubt)
        case .like(let operand, let matcher):
            guard let field = PushedValue(operand, scope) else { return nil }
            guard case .prepared(let pattern) = matcher else { return isText(field) }
            let text = pattern.text
            // Letters beyond ASCII have other cases in other libraries.
            if pattern.ignoresCase, !text.utf8.allSatisfy({ $0 < 0x80 }) { return isText(field) }
            guard PushedConstant.isSendable(text) else {
                return wanted ? .neverPlain(field) : .leaf("\(field.type) = 'string'", field.doubt)
            }
            let like: SQL = wanted ? "LIKE" : "NOT LIKE"
            guard pattern.ignoresCase else {
                return .guarded(field, "'string'", "\(field.text) \(like) \(.text(text))")
            }
            var test = Test.guarded(
                field, "'string'",
                "lower(\(field.text) COLLATE \"C\") \(like) lower(\(.text(text)) COLLATE \"C\")")
            test.doubt = test.doubt.or(
                "\(field.type) = 'string' AND octet_length(\(field.text)) <> char_length(\(field.text))")
            return test
        // A regular expression may backtrack without end in the server.
        case .similar(let operand, _): return PushedValue(operand, scope).map(isText)
        case .quantified(let quantified):
            guard let field = PushedValue(quantified.binding.source, scope), !quantified.binding.isWithin,
                !quantified.binding.hasIndex
            else { return nil }
            return self.quantified(quantified, field, wanted)
        case .call(let call): return predicate(call, wanted)
        default: return nil
        }
    }

    private func isText(_ field: PushedValue) -> Test {
        .leaf("\(field.type) = 'string'", field.doubt, isExact: false)
    }

    private func quantified(_ quantified: BoundQuantified, _ field: PushedValue, _ wanted: Bool) -> Test {
        let isObject: SQL = "\(field.type) = 'object'"
        if wanted, let found = containment(quantified, field) {
            return .leaf("\(field.type) = 'array' AND \(found)", field.doubt.or(isObject))
        }
        // Each variable has a name of its own: an inner one may not hide an outer one.
        let name: SQL = "e\(.number(scope.locals.count))"
        var inner = scope
        inner.locals.append(
            PushedValue("\(name).v", text: "(\(name).v #>> '{}')", doubt: Doubt()))
        guard let test = ConditionTranslator(scope: inner).test(quantified.condition), test.isExact else {
            return .leaf("\(field.type) IN ('array', 'object')", field.doubt, isExact: false)
        }
        func some(_ condition: SQL) -> SQL {
            """
            CASE WHEN \(field.type) = 'array' THEN EXISTS (\
            SELECT FROM jsonb_array_elements(\(field.value)) AS \(name) (v) WHERE \(condition)) END
            """
        }
        let isAny = quantified.quantifier == .any
        var sql = some(isAny ? test.sql : "NOT \(test.sql)")
        if isAny != wanted { sql = "NOT \(sql)" }
        if quantified.quantifier == .anyAndEvery {
            let isEmpty: SQL = """
                CASE WHEN \(field.type) = 'array' THEN jsonb_array_length(\(field.value)) = 0 END
                """
            sql = wanted ? "\(sql) AND NOT \(isEmpty)" : "\(sql) OR \(isEmpty)"
        }
        var doubt = field.doubt + Doubt(keys: test.doubt.keys)
        doubt = doubt.or(isObject)
        if !test.doubt.tests.isEmpty {
            doubt = doubt.or(some(SQL.joined(test.doubt.tests.map(\.sql), " OR ")))
        }
        return .leaf(sql, doubt)
    }

    /// A test for an array with an element that equals a scalar, or has one under a key, which an index on
    /// the whole body can answer. Only scalars: containment is not equality.
    private func containment(_ quantified: BoundQuantified, _ field: PushedValue) -> SQL? {
        guard quantified.quantifier == .any,
            case .comparison(.equal, let left, let right) = quantified.condition
        else { return nil }
        let sides: (BoundExpression, Value)
        switch (left, right) {
        case (_, .constant(let value?)): sides = (left, value)
        case (.constant(let value?), _): sides = (right, value)
        default: return nil
        }
        switch sides.1 {
        case .null, .array, .object: return nil
        default: break
        }
        guard let json = PushedConstant.json(sides.1) else { return nil }
        let place = scope.locals.count
        let element: String
        switch sides.0 {
        case .local(place): element = json
        case .element(.local(place), .constant(.string(let key)?)) where PushedConstant.isSendable(key):
            element = "{" + JSONText.print(.string(key)) + ":" + json + "}"
        default: return nil
        }
        return "\(field.value) @> \(.text("[" + element + "]"))::jsonb"
    }

    // MARK: Functions

    /// A call as a condition.
    private func predicate(_ call: BoundCall, _ wanted: Bool) -> Test? {
        guard let first = call.arguments.first, let field = PushedValue(first, scope) else { return nil }
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
                    : "\(field.type) <> \(type) AND \(field.type) <> 'null'", field.doubt)
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
            return wanted ? .neverPlain(field) : .leaf("\(field.type) = 'string'", field.doubt)
        }
        let sql: SQL
        switch call.function.name {
        case "contains": sql = "strpos(\(field.text), \(.text(part))) > 0"
        case "starts_with": sql = "starts_with(\(field.text), \(.text(part)))"
        default: sql = "right(\(field.text), char_length(\(.text(part)))) = \(.text(part))"
        }
        return .guarded(field, "'string'", "\(not)(\(sql))")
    }

    /// Returns whether `computed` is how an operand is compared; if that fails, so does everything else. To
    /// try both would double the work for each function inside the other.
    func isComputed(_ operand: BoundExpression, _ symbol: BinaryOperator) -> Bool {
        guard case .call(let call) = operand else { return false }
        return switch call.function.name {
        case "type": symbol == .equal || symbol == .notEqual
        case "char_length", "byte_length", "array_length", "pos": true
        default: false
        }
    }

    /// A comparison of a function of a field with a constant; `symbol` is the one that has to hold.
    func computed(_ symbol: BinaryOperator, _ operand: BoundExpression, _ value: Value) -> Test? {
        guard case .call(let call) = operand, let first = call.arguments.first,
            let field = PushedValue(first, scope)
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
        default: return nil
        }
    }

    /// A whole number that SQL computes from a field of one type.
    private func length(
        _ symbol: BinaryOperator, _ field: PushedValue, _ type: SQL, _ length: SQL, _ value: Value
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
                ? .leaf("\(field.type) = \(type)", field.doubt) : .neverPlain(field)
        }
    }

    /// The name of a type, which every value has, and MISSING too.
    private func type(_ symbol: BinaryOperator, _ field: PushedValue, _ value: Value) -> Test? {
        guard case .string(let name) = value else { return .never }
        guard symbol == .equal || symbol == .notEqual else { return nil }
        let found: Test
        switch name {
        case "boolean", "string", "object", "array", "null":
            found = .leaf("\(field.type) = \(.text(name))", field.doubt)
        case "integer": found = .guarded(field, "'number'", "scale(\(field.value)::numeric) = 0")
        case "float": found = .guarded(field, "'number'", "scale(\(field.value)::numeric) > 0")
        case "missing": found = Test(sql: "\(field.value) IS NULL", doubt: field.doubt)
        default: found = Test(sql: "false", doubt: field.doubt)
        }
        return symbol == .equal ? found : Test(sql: "NOT \(found.sql)", doubt: field.doubt)
    }
}

extension LikePattern {
    /// The pattern as PostgreSQL reads it, with `\` before what is literal.
    var text: String {
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
