import CRDT

/// Functions that SQL computes as the evaluator does.
extension PushedValue {
    static func call(_ call: BoundCall, _ scope: PushScope) -> PushedValue? {
        let values = call.arguments.compactMap { operand($0, scope) }
        guard values.count == call.arguments.count else { return nil }
        let constants = call.arguments.map { argument -> Value? in
            if case .constant(let value) = argument { value } else { nil }
        }
        if let chosen = choice(call.function.name, values) { return chosen }
        guard let first = values.first else { return nil }
        if values.count == 1, let made = first.simple(call.function.name) { return made }
        switch call.function.name {
        case "concat":
            guard values.count > 1 else { return nil }
            return values.dropFirst().reduce(Optional(first)) { result, next in
                concat(result?.bound(scope), next)
            }
        case "contains", "starts_with", "ends_with", "pos":
            guard values.count == 2, case .string(let part)? = constants[1], PushedConstant.isSendable(part)
            else { return nil }
            return first.search(call.function.name, part)
        case "substr": return first.substring(constants.dropFirst())
        case "cast":
            guard case .string(let name)? = constants[1] else { return nil }
            return first.cast(Conversion.typeNames[name.lowercased()] ?? "")
        case "date_trunc":
            guard case .string(let part)? = constants[1] else { return nil }
            return first.truncated(part.lowercased())
        default: return nil
        }
    }

    /// The functions that choose one of their arguments, or ask which kind of value one is.
    private static func choice(_ name: String, _ values: [PushedValue]) -> PushedValue? {
        let doubt = values.reduce(Doubt()) { $0 + $1.doubt }
        let all = values.map(\.value)
        func known(_ value: SQL) -> SQL { "\(value) <> 'null'" }
        func areEqual() -> SQL { "\(all[0]) = \(all[1]) AND \(all[0]) <> 'null'" }
        let sql: SQL
        switch (name, all.count) {
        case ("coalesce", 1...):
            let some = SQL.joined(all.map { "nullif(\($0), 'null'::jsonb)" }, ", ")
            sql = "coalesce(\(some), 'null'::jsonb)"
        case ("nvl", 2): sql = "CASE WHEN \(known(all[0])) THEN \(all[0]) ELSE \(all[1]) END"
        case ("nvl", 3): sql = "CASE WHEN \(known(all[0])) THEN \(all[1]) ELSE \(all[2]) END"
        case ("ifmissing", 1...): sql = "coalesce(\(SQL.joined(all, ", ")))"
        case ("ifnull", 1...):
            let whens = SQL.joined(all.map { "WHEN \($0) IS NULL OR \(known($0)) THEN \($0)" }, " ")
            sql = "CASE \(whens) ELSE 'null'::jsonb END"
        case ("ismissing", 1): sql = "to_jsonb(\(all[0]) IS NULL)"
        case ("isnull", 1): sql = "to_jsonb(coalesce(\(all[0]) = 'null', false))"
        case ("ismissingornull", 1): sql = "to_jsonb(coalesce(\(all[0]) = 'null', true))"
        case ("nullif", 2): sql = "CASE WHEN \(areEqual()) THEN 'null'::jsonb ELSE \(all[0]) END"
        case ("missingif", 2): sql = "CASE WHEN \(areEqual()) THEN NULL::jsonb ELSE \(all[0]) END"
        // It has the first one before each result.
        case ("decode", 3...) where all[0].textBytes * (all.count / 2) <= 2 * DQLLimits.pushedTextBytes:
            let whens = stride(from: 1, to: all.count - 1, by: 2).map { place -> SQL in
                "WHEN \(all[0]) IS NOT DISTINCT FROM \(all[place]) THEN \(all[place + 1])"
            }
            let last: SQL = all.count.isMultiple(of: 2) ? all[all.count - 1] : "'null'::jsonb"
            sql = "CASE \(SQL.joined(whens, " ")) ELSE \(last) END"
        default: return nil
        }
        return PushedValue("(\(sql))", doubt: doubt)
    }

    /// The value that a function makes of values of one type: null stays null, all others are MISSING.
    private func strict(
        _ type: SQL, _ sql: SQL, of result: SQL? = nil, text: SQL? = nil, doubt test: SQL? = nil
    ) -> PushedValue {
        PushedValue(
            "(CASE \(self.type) WHEN \(type) THEN \(sql) WHEN 'null' THEN 'null'::jsonb END)",
            type: result.map {
                "(CASE \(self.type) WHEN \(type) THEN \($0) WHEN 'null' THEN 'null' END)"
            },
            text: text.map { "(CASE WHEN \(self.type) = \(type) THEN \($0) END)" },
            doubt: test.map { doubt.or("CASE WHEN \(self.type) = \(type) THEN \($0) END") } ?? doubt)
    }

    /// The functions of one argument.
    private func simple(_ name: String) -> PushedValue? {
        let isNegativeLeast: SQL = "\(number) = -9223372036854775808"
        switch name {
        // Letters beyond ASCII have other cases in other libraries.
        case "lower", "upper":
            let made: SQL = "\(name == "lower" ? "lower" : "upper")(\(text) COLLATE \"C\")"
            return strict(
                "'string'", "to_jsonb(\(made))", of: "'string'", text: made,
                doubt: "octet_length(\(text)) <> char_length(\(text))")
        case "char_length": return strict("'string'", "to_jsonb(char_length(\(text)))", of: "'number'")
        case "byte_length": return strict("'string'", "to_jsonb(octet_length(\(text)))", of: "'number'")
        case "array_length":
            return strict("'array'", "to_jsonb(jsonb_array_length(\(value)))", of: "'number'")
        case "abs":
            return strict("'number'", "to_jsonb(abs(\(number)))", of: "'number'", doubt: isNegativeLeast)
        case "ceil", "floor":
            let made: SQL = name == "ceil" ? "ceil(\(number))" : "floor(\(number))"
            // A double stays one, and may become a negative zero.
            return strict(
                "'number'",
                "CASE WHEN scale(\(number)) = 0 THEN \(value) ELSE (\(made)::text || '.0')::jsonb END",
                of: "'number'", doubt: "scale(\(number)) > 0 AND \(made) = 0")
        case "type":
            let made: SQL = """
                coalesce(CASE \(type) WHEN 'number' THEN CASE WHEN scale(\(number)) = 0 THEN 'integer' \
                ELSE 'float' END ELSE \(type) END, 'missing')
                """
            return PushedValue("to_jsonb(\(made))", type: "'string'::text", text: made, doubt: doubt)
        case "json_type":
            let made: SQL = "coalesce(\(type), 'null')"
            return PushedValue("to_jsonb(\(made))", type: "'string'::text", text: made, doubt: doubt)
        case "is_number": return isType("'number'")
        case "is_string": return isType("'string'")
        case "is_boolean": return isType("'boolean'")
        default: return nil
        }
    }

    private func isType(_ name: SQL) -> PushedValue {
        PushedValue(
            "(CASE WHEN \(type) = 'null' THEN 'null'::jsonb ELSE to_jsonb(\(type) = \(name)) END)",
            doubt: doubt)
    }

    private func search(_ name: String, _ part: String) -> PushedValue {
        switch name {
        case "contains": strict("'string'", "to_jsonb(strpos(\(text), \(.text(part))) > 0)")
        case "starts_with": strict("'string'", "to_jsonb(starts_with(\(text), \(.text(part))))")
        case "ends_with":
            strict(
                "'string'", "to_jsonb(right(\(text), char_length(\(.text(part)))) = \(.text(part)))")
        default: strict("'string'", "to_jsonb(strpos(\(text), \(.text(part))) - 1)", of: "'number'")
        }
    }

    /// The characters from a known place on, perhaps of a known number.
    private func substring(_ bounds: ArraySlice<Value?>) -> PushedValue? {
        var numbers: [Int64] = []
        for bound in bounds {
            guard case .int(let number)? = bound, (0...Int64(DQLLimits.resultBytes)).contains(number)
            else { return nil }
            numbers.append(number)
        }
        guard let start = numbers.first else { return nil }
        var made: SQL = "substr(\(text), \(.integer(start + 1))::int4"
        if numbers.count > 1 { made = "\(made), \(.integer(numbers[1]))::int4" }
        made = "CASE WHEN char_length(\(text)) >= \(.integer(start)) THEN \(made)) END"
        return strict("'string'", "to_jsonb(\(made))", text: made)
    }

    /// Conversions between numbers, booleans and texts. Texts are read by the evaluator, and so are doubles
    /// printed.
    private func cast(_ type: String) -> PushedValue? {
        let others: SQL = "WHEN 'null' THEN 'null'::jsonb"
        switch type {
        case "string":
            return PushedValue(
                """
                (CASE WHEN \(self.type) IN ('string', 'boolean', 'number') THEN to_jsonb(\(value) #>> '{}') \
                WHEN \(self.type) = 'null' THEN 'null'::jsonb END)
                """,
                doubt: doubt.or("CASE WHEN \(self.type) = 'number' THEN scale(\(number)) > 0 END"))
        case "integer":
            return PushedValue(
                """
                (CASE \(self.type) WHEN 'number' THEN to_jsonb(trunc(\(number))) \
                WHEN 'boolean' THEN to_jsonb(\(value)::boolean::int) \(others) END)
                """, doubt: doubt.or("\(self.type) = 'string'"))
        case "float":
            return PushedValue(
                """
                (CASE \(self.type) WHEN 'number' THEN CASE WHEN scale(\(number)) > 0 THEN \(value) \
                ELSE (\(number)::text || '.0')::jsonb END \
                WHEN 'boolean' THEN (\(value)::boolean::int::text || '.0')::jsonb \(others) END)
                """,
                doubt: doubt.or(
                    """
                    CASE \(self.type) WHEN 'string' THEN true WHEN 'number' THEN scale(\(number)) = 0 \
                    AND abs(\(number)) >= 9007199254740992 END
                    """))
        default: return nil
        }
    }

    /// A moment in milliseconds, cut back to a part of the day in UTC. Texts and doubles are the evaluator's,
    /// and so are the years that have no four digits.
    private func truncated(_ part: String) -> PushedValue? {
        let length: Int64
        switch part {
        case "day": length = 86_400_000
        case "hour": length = 3_600_000
        case "minute": length = 60_000
        case "second": length = 1_000
        default: return nil
        }
        return PushedValue(
            """
            (CASE \(type) WHEN 'number' THEN to_jsonb(floor(\(number) / \(.integer(length))::numeric) \
            * \(.integer(length))::numeric) WHEN 'null' THEN 'null'::jsonb END)
            """,
            doubt: doubt.or(
                """
                CASE \(type) WHEN 'string' THEN true WHEN 'number' THEN scale(\(number)) > 0 \
                OR NOT \(number) BETWEEN -62135596800000 AND 253402300799999 END
                """))
    }
}
