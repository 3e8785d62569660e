import CRDT

/// Translates conditions on one source into SQL on the bodies of documents.
///
/// SQL has neither MISSING nor our types, so nothing of the three-valued logic is modelled there. A negation
/// is pushed down to the leaves, and each leaf has two tests that are true or false and never NULL: one for
/// "is true", one for "is false". A test is *exact* if it holds for a document exactly when the evaluator
/// says so, otherwise it holds for more. Only `CASE` guards a cast: the server evaluates AND in any order.
struct ConditionTranslator {
    let scope: PushScope

    /// A test in SQL.
    struct Test {
        var sql: SQL
        /// True if the evaluator need not look again.
        var isExact = true
        /// The documents of which it says nothing.
        var doubt = Doubt()

        static let always = Test(sql: "true")
        static let never = Test(sql: "false")

        /// A test that no body fulfils, and perhaps a rough document.
        static func neverPlain(_ field: PushedValue) -> Test { Test(sql: "false", doubt: field.doubt) }

        /// The length of its literals, those of the doubt included.
        var textBytes: Int { sql.textBytes + doubt.textBytes }

        /// The same; nil if it is too long for a statement.
        var modest: Test? { textBytes <= DQLLimits.pushedTextBytes ? self : nil }

        /// A leaf that may be NULL, which counts as false.
        static func leaf(_ sql: SQL, _ doubt: Doubt, isExact: Bool = true) -> Test {
            Test(sql: "coalesce(\(sql), false)", isExact: isExact, doubt: doubt)
        }

        /// A leaf that casts, which only documents of one type may reach.
        static func guarded(
            _ field: PushedValue, _ type: SQL, _ sql: SQL, isExact: Bool = true
        ) -> Test {
            .leaf("CASE WHEN \(field.type) = \(type) THEN \(sql) END", field.doubt, isExact: isExact)
        }
    }

    /// A test that holds where the condition is true or, with `wanted` false, where it is false; nil where
    /// SQL can tell nothing.
    func test(_ condition: BoundExpression, wanted: Bool = true) -> Test? {
        let steps = scope.steps?.count
        let found = translated(condition, wanted)
        if found == nil, let steps { scope.steps?.takeBack(to: steps) }
        return found
    }

    private func translated(_ condition: BoundExpression, _ wanted: Bool) -> Test? {
        switch condition {
        case .constant(let value): return value == .some(.bool(wanted)) ? .always : .never
        case .not(let operand): return test(operand, wanted: !wanted)
        case .and(let operands):
            let parts = operands.map { test($0, wanted: wanted) }
            return wanted ? all(parts) : some(parts)
        case .or(let operands):
            let parts = operands.map { test($0, wanted: wanted) }
            return wanted ? some(parts) : all(parts)
        case .xor(let left, let right): return either(left, right, wanted)
        case .comparison(let symbol, let left, let right): return comparison(symbol, left, right, wanted)
        case .between(let value, let low, let high):
            // A value that SQL does not know is not tried twice: one inside the other that would double.
            guard let lower = comparison(.greaterOrEqual, value, low, wanted) else { return nil }
            let parts: [Test?] = [lower, comparison(.lessOrEqual, value, high, wanted)]
            return wanted ? all(parts) : some(parts)
        case .inList(let value, let elements):
            var known: [Value?] = []
            for element in elements {
                guard case .constant(let value) = element else { return nil }
                known.append(value)
            }
            let values = known.compactMap { $0 == .some(.null) ? nil : $0 }
            return membership(value, values, hasUnknown: values.count < known.count, wanted)
        case .inSet(let value, let set):
            return membership(value, set.values, hasUnknown: set.hasNull, wanted)
        case .inCollection(let value, .constant(.array(let elements)?)):
            let values = elements.filter { $0 != .null }
            return membership(value, values, hasUnknown: values.count < elements.count, wanted)
        case .inCollection(_, .constant): return .never
        case .inCollection(.constant(let value), let array):
            guard let field = PushedValue(array, scope) else { return nil }
            return contains(field, value, isIn: true, wanted)
        default: return leaf(condition, wanted)
        }
    }

    private func all(_ parts: [Test?]) -> Test? {
        let known = parts.compactMap(\.self)
        guard let first = known.first else { return nil }
        guard parts.count > 1 else { return first }
        return Test(
            sql: "(\(SQL.joined(known.map(\.sql), " AND ")))",
            isExact: known.count == parts.count && known.allSatisfy(\.isExact),
            doubt: known.reduce(Doubt()) { $0 + $1.doubt }
        ).modest
    }

    private func some(_ parts: [Test?]) -> Test? {
        let known = parts.compactMap(\.self)
        guard known.count == parts.count, let first = known.first else { return nil }
        guard known.count > 1 else { return first }
        return Test(
            sql: "(\(SQL.joined(known.map(\.sql), " OR ")))", isExact: known.allSatisfy(\.isExact),
            doubt: known.reduce(Doubt()) { $0 + $1.doubt }
        ).modest
    }

    /// XOR, which has each operand twice: they are asked one after the other, and the first one that SQL does
    /// not know ends it. One XOR inside the other would double the work for nothing.
    private func either(_ left: BoundExpression, _ right: BoundExpression, _ wanted: Bool) -> Test? {
        var tests: [Test] = []
        for (operand, isTrue) in [(left, true), (right, !wanted), (left, false), (right, wanted)] {
            guard let test = self.test(operand, wanted: isTrue), test.isExact else { return nil }
            tests.append(test)
        }
        return some([all([tests[0], tests[1]]), all([tests[2], tests[3]])])
    }

    // MARK: Comparisons

    private func comparison(
        _ symbol: BinaryOperator, _ left: BoundExpression, _ right: BoundExpression, _ wanted: Bool
    ) -> Test? {
        switch (left, right) {
        case (.constant(let value), .constant(let other)):
            return Truth.compare(symbol, value, other) == .some(.bool(wanted)) ? .always : .never
        case (_, .constant(let value)): return comparison(symbol, left, to: value, wanted)
        case (.constant(let value), _): return comparison(symbol.mirrored, right, to: value, wanted)
        default:
            guard let first = PushedValue.operand(left, scope), let second = PushedValue.operand(right, scope)
            else { return nil }
            return comparison(symbol, first, second, wanted)
        }
    }

    private func comparison(
        _ symbol: BinaryOperator, _ first: PushedValue, _ second: PushedValue, _ wanted: Bool
    ) -> Test {
        let doubt = first.doubt + second.doubt
        let areAlike: SQL = "\(first.type) = \(second.type)"
        switch (symbol, wanted) {
        case (.equal, true), (.notEqual, false):
            return .leaf("\(first.value) = \(second.value) AND \(first.value) <> 'null'", doubt)
        case (.equal, false), (.notEqual, true):
            return .leaf("\(areAlike) AND \(first.value) <> \(second.value)", doubt)
        default:
            let symbol = (wanted ? symbol : symbol.negated).sql
            // Each cast stands behind a test of its own value: where the server finds that one of them is the
            // same for all documents, it computes the cast before it asks for the other's type.
            return .leaf(
                """
                CASE WHEN \(first.type) = 'number' AND \(second.type) = 'number' \
                THEN \(first.number) \(symbol) \(second.number) \
                WHEN \(areAlike) THEN CASE \(first.type) \
                WHEN 'string' THEN \(first.text) COLLATE "C" \(symbol) \(second.text) \
                WHEN 'boolean' THEN \(first.value) \(symbol) \(second.value) END END
                """,
                // jsonb has another order of arrays and objects.
                doubt.or("\(areAlike) AND \(first.type) IN ('array', 'object')"))
        }
    }

    private func comparison(
        _ symbol: BinaryOperator, _ operand: BoundExpression, to value: Value?, _ wanted: Bool
    ) -> Test? {
        guard let value, value != .null else { return .never }
        let symbol = wanted ? symbol : symbol.negated
        if isComputed(operand, symbol) { return computed(symbol, operand, value) }
        guard let field = PushedValue(operand, scope) else { return nil }
        switch value {
        case .null: return .never
        // A body has no binary: it would be rough.
        case .binary: return .neverPlain(field)
        case .bool(let flag):
            let constant: SQL = flag ? "'true'::jsonb" : "'false'::jsonb"
            if symbol == .equal { return .leaf("\(field.value) = \(constant)", field.doubt) }
            return .leaf(
                "\(field.type) = 'boolean' AND \(field.value) \(symbol.sql) \(constant)", field.doubt)
        case .int, .double: return number(symbol, field, value)
        case .string(let text): return self.text(symbol, field, text)
        case .array, .object:
            let type: SQL = if case .array = value { "'array'" } else { "'object'" }
            switch symbol {
            case .equal:
                guard let json = PushedConstant.json(value) else { return .neverPlain(field) }
                return .leaf("\(field.value) = \(.text(json))::jsonb", field.doubt)
            case .notEqual:
                guard let json = PushedConstant.json(value) else {
                    return .leaf("\(field.type) = \(type)", field.doubt)
                }
                return .leaf(
                    "\(field.type) = \(type) AND \(field.value) <> \(.text(json))::jsonb", field.doubt)
            // jsonb has another order of arrays and objects.
            default: return .leaf("\(field.type) = \(type)", field.doubt, isExact: false)
            }
        }
    }

    private func number(_ symbol: BinaryOperator, _ field: PushedValue, _ value: Value) -> Test {
        switch Self.numeric(value) {
        case .digits(let digits):
            if symbol == .equal { return .leaf("\(field.value) = \(.text(digits))::jsonb", field.doubt) }
            return .guarded(
                field, "'number'", "\(field.value)::numeric \(symbol.sql) \(.text(digits))::numeric")
        case .beyond(let order):
            // Every number of a body is on one side.
            return Truth.holds(symbol, order)
                ? .leaf("\(field.type) = 'number'", field.doubt) : .neverPlain(field)
        }
    }

    /// A number for SQL.
    enum Numeric {
        case digits(String)
        /// Outside of the numbers of bodies, which are all less (-1) or greater (1).
        case beyond(Int)
    }

    static func numeric(_ value: Value) -> Numeric {
        switch value {
        case .int(let number): .digits(String(number))
        case .double(let number):
            // NaN sorts before every number.
            PushedConstant.digits(number).map(Numeric.digits) ?? .beyond(number > 0 ? -1 : 1)
        default: preconditionFailure("a number")
        }
    }

    private func text(_ symbol: BinaryOperator, _ field: PushedValue, _ text: String) -> Test {
        guard PushedConstant.isSendable(text) else {
            // No text of a body equals it, and its beginning decides the order.
            let start = String(text.unicodeScalars.prefix { $0 != "\u{0}" })
            switch symbol {
            case .equal: return .neverPlain(field)
            case .notEqual: return .leaf("\(field.type) = 'string'", field.doubt)
            case .less, .lessOrEqual: return self.text(.lessOrEqual, field, start)
            default: return self.text(.greater, field, start)
            }
        }
        switch symbol {
        case .equal where !PushedConstant.looksLikeJSON(text):
            return .leaf("\(field.text) = \(.text(text))", field.doubt)
        case .equal, .notEqual:
            return .guarded(field, "'string'", "\(field.text) \(symbol.sql) \(.text(text))")
        default:
            return .guarded(
                field, "'string'", "\(field.text) COLLATE \"C\" \(symbol.sql) \(.text(text))")
        }
    }

    // MARK: Membership

    private func membership(
        _ operand: BoundExpression, _ values: [Value], hasUnknown: Bool, _ wanted: Bool
    ) -> Test? {
        guard let field = PushedValue(operand, scope), values.count <= DQLLimits.pushedElements else {
            return nil
        }
        let texts = values.compactMap(PushedConstant.json)
        if wanted {
            if texts.isEmpty { return .neverPlain(field) }
            return .leaf("\(field.value) = ANY (\(.texts(texts))::jsonb[])", field.doubt)
        }
        if hasUnknown { return .never }
        if texts.isEmpty { return .leaf("\(field.value) <> 'null'", field.doubt) }
        return .leaf(
            "\(field.value) <> 'null' AND \(field.value) <> ALL (\(.texts(texts))::jsonb[])", field.doubt)
    }

    /// Membership of a value in an array of the document. `?` would be true for keys of objects too.
    func contains(_ field: PushedValue, _ value: Value?, isIn: Bool, _ wanted: Bool) -> Test {
        guard let value, value != .null else { return .never }
        let isArray: SQL = "\(field.type) = 'array'"
        var isScalar = true
        switch value {
        case .array, .object: isScalar = false
        default: break
        }
        let json = PushedConstant.json(value).map { "[" + $0 + "]" }
        if wanted {
            guard let json else { return .neverPlain(field) }
            return .leaf(
                "\(isArray) AND \(field.value) @> \(.text(json))::jsonb", field.doubt, isExact: isScalar)
        }
        // Containment is not equality: what contains an equal array may also contain a longer one.
        guard isScalar else { return .leaf(isArray, field.doubt, isExact: false) }
        var sql: SQL = isArray
        if let json { sql = "\(sql) AND NOT \(field.value) @> \(.text(json))::jsonb" }
        // For IN a null element makes the answer unknown.
        if isIn { sql = "\(sql) AND NOT \(field.value) @> '[null]'" }
        return .leaf(sql, field.doubt)
    }
}

extension BinaryOperator {
    /// The same comparison in SQL.
    var sql: SQL {
        switch self {
        case .equal: "="
        case .notEqual: "<>"
        case .less: "<"
        case .lessOrEqual: "<="
        case .greater: ">"
        case .greaterOrEqual: ">="
        default: preconditionFailure("not a comparison")
        }
    }
}
