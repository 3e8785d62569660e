import CRDT

/// Evaluates expressions on a row. The evaluator defines the language: every other way to execute a
/// statement has to agree with it. nil is MISSING.
struct Evaluator: Sendable {
    let fields: FieldResolver
    private let context: FunctionContext

    /// The number of sources.
    var sources: Int { fields.types.count }

    /// - Parameter types: the types that the statement declares for each source.
    init(_ options: ExecutionOptions, types: [TypeDefinition]) {
        fields = FieldResolver(isStrict: options.strictReads, types: types)
        context = options.context
    }

    /// Returns whether a condition lets a row through: only true does. The same as `evaluate`, without
    /// creating truth values on the way: this runs once per document of every scan.
    func isTrue(_ condition: BoundExpression, _ row: borrowing Row) throws -> Bool {
        switch condition {
        case .and(let operands):
            for operand in operands where try !isTrue(operand, row) { return false }
            return true
        case .or(let operands):
            for operand in operands where try isTrue(operand, row) { return true }
            return false
        case .comparison(let symbol, .field(let access), .constant(.string(let text)?)):
            guard let document = row.documents[access.source]?.document,
                let order = try fields.compare(access, text, in: document)
            else { return false }
            return Truth.holds(symbol, order)
        case .comparison(let symbol, let left, let right):
            let first = try evaluate(left, row)
            try walked(first, row)
            guard let order = ValueOrder.comparison(first, try evaluate(right, row)) else { return false }
            return Truth.holds(symbol, order)
        case .isMissing(let operand): return try evaluate(operand, row) == nil
        default: return if case .bool(true)? = try evaluate(condition, row) { true } else { false }
        }
    }

    func evaluate(_ expression: BoundExpression, _ row: borrowing Row) throws -> Value? {
        switch expression {
        case .constant(let value): return value
        case .parameter: preconditionFailure("parameters are replaced before execution")
        case .field(let access):
            guard let document = row.documents[access.source]?.document else { return nil }
            return try charged(try fields.read(access, in: document), row)
        case .documentID(let source): return row.documents[source]?.id.value
        case .document(let source):
            guard let record = row.documents[source] else { return nil }
            try row.meter?.work(bytes: record.document.bytes.count)
            return .object(try fields.document(record, source: source))
        case .slot(let index): return row.slots[index]
        case .local(let index): return row.locals[index]
        case .element(let base, let index):
            let whole = try evaluate(base, row)
            // A key is looked for among all.
            if case .object(let object)? = whole {
                try row.meter?.work(bytes: object.count * DQLLimits.elementBytes)
            }
            return Self.element(of: whole, try evaluate(index, row))
        case .negate(let operand): return Arithmetic.negate(try evaluate(operand, row))
        case .not(let operand): return Truth.not(try evaluate(operand, row))
        case .arithmetic(let symbol, let left, let right):
            let result = Arithmetic.apply(symbol, try evaluate(left, row), try evaluate(right, row))
            return symbol == .concat ? try charged(result, row) : result
        case .comparison(let symbol, let left, let right):
            let first = try evaluate(left, row)
            try walked(first, row)
            return Truth.compare(symbol, first, try evaluate(right, row))
        case .and(let operands): return try conjunction(operands, row)
        case .or(let operands): return try disjunction(operands, row)
        case .xor(let left, let right): return Truth.xor(try evaluate(left, row), try evaluate(right, row))
        case .isNull(let operand): return .bool(try evaluate(operand, row) == .some(.null))
        case .isMissing(let operand): return .bool(try evaluate(operand, row) == nil)
        default: return try evaluateCompound(expression, row)
        }
    }

    private func evaluateCompound(_ expression: BoundExpression, _ row: borrowing Row) throws -> Value? {
        switch expression {
        case .chain(let first, let links): return try chain(first, links, row)
        case .between(let value, let low, let high):
            let value = try evaluate(value, row)
            try walked(value, row)
            return Truth.and(
                Truth.compare(.greaterOrEqual, value, try evaluate(low, row)),
                Truth.compare(.lessOrEqual, value, try evaluate(high, row)))
        case .inList(let value, let elements):
            return try membership(try evaluate(value, row), elements, row)
        case .inCollection(let value, let collection):
            let value = try evaluate(value, row)
            let collection = try evaluate(collection, row)
            try walked(collection, row)
            return Self.membership(value, collection)
        case .inSet(let value, let set):
            guard let value = try evaluate(value, row) else { return nil }
            if case .null = value { return .null }
            try walked(value, row)
            return set.contains(value) ? true : set.hasNull ? .null : false
        case .like(let value, let matcher): return try like(try evaluate(value, row), matcher, row)
        case .similar(let value, let matcher): return try similar(try evaluate(value, row), matcher, row)
        case .quantified(let quantified): return try self.quantified(quantified, row)
        case .comprehension(let comprehension): return try self.comprehension(comprehension, row)
        case .conflicts(let access):
            guard let record = row.documents[access.source] else { return nil }
            return try fields.conflicts(access, in: record)
        case .conditional(let operand, let branches, let otherwise):
            return try conditional(operand, branches, otherwise, row)
        case .array(let elements): return try array(elements, row)
        case .object(let entries): return try object(entries, row)
        case .call(let call): return try self.call(call, row)
        default: preconditionFailure("every kind of expression is evaluated")
        }
    }

    /// Counts a collection as work that was not charged when it was read, because it is an argument of the
    /// statement or a variable.
    @inline(__always)
    private func walked(_ value: Value?, _ row: borrowing Row) throws {
        switch value {
        case .array?, .object?: try row.meter?.work(value)
        default: return
        }
    }

    @inline(never)
    private func array(_ elements: [BoundExpression], _ row: borrowing Row) throws -> Value {
        let meter = row.meter
        var held = 0
        defer { meter?.release(held) }
        var values: [Value] = []
        for element in elements {
            guard let value = try evaluate(element, row) else { continue }
            try meter?.retain(value, &held)
            values.append(value)
        }
        return .array(values)
    }

    @inline(never)
    private func object(_ entries: [BoundExpression.Entry], _ row: borrowing Row) throws -> Value {
        let meter = row.meter
        var held = 0
        defer { meter?.release(held) }
        var values: [ObjectValue.Entry] = []
        for entry in entries {
            guard let value = try evaluate(entry.value, row) else { continue }
            try meter?.retain(value, &held)
            values.append((key: entry.key, value: value))
        }
        return .object(ObjectValue(values))
    }

    @inline(never)
    private func call(_ call: BoundCall, _ row: borrowing Row) throws -> Value? {
        let meter = row.meter
        var held = 0
        defer { meter?.release(held) }
        var arguments: [Value?] = []
        arguments.reserveCapacity(call.arguments.count)
        for argument in call.arguments {
            let value = try evaluate(argument, row)
            if let value, call.arguments.count > 1 { try meter?.retain(value, &held) }
            arguments.append(value)
        }
        for argument in arguments { _ = try charged(argument, row) }
        if let long = call.prepared ?? call.function.evaluateLong {
            return try charged(try long(arguments) { try meter?.check() }, row)
        }
        return try charged(call.function.evaluate(arguments, context), row)
    }

    /// Returns the value and counts its size as work.
    @inline(never)
    private func charged(_ value: Value?, _ row: borrowing Row) throws -> Value? {
        switch value {
        case .string?, .binary?, .array?, .object?: try row.meter?.work(value)
        default: break
        }
        return value
    }

    // MARK: Logic

    /// The operators of a chain, from left to right. A text grows in place: a copy for each part would take
    /// time quadratic in their number.
    @inline(never)
    private func chain(
        _ first: BoundExpression, _ links: [BoundExpression.ChainStep], _ row: borrowing Row
    ) throws -> Value? {
        var result = try evaluate(first, row)
        for link in links {
            let operand = try evaluate(link.operand, row)
            if link.symbol == .xor {
                result = Truth.xor(result, operand)
            } else if link.symbol == .concat, case .string(let more)? = operand,
                case .string(var text)? = result
            {
                result = nil
                guard text.utf8.count + more.utf8.count <= DQLLimits.resultBytes else { continue }
                text += more
                result = .string(text)
                try row.meter?.work(operand)
            } else {
                result = Arithmetic.apply(link.symbol, result, operand)
            }
        }
        return try charged(result, row)
    }

    private func conjunction(_ operands: [BoundExpression], _ row: borrowing Row) throws -> Value? {
        var result: Value? = true
        for operand in operands {
            result = Truth.and(result, try evaluate(operand, row))
            if case .bool(false)? = result { return result }
        }
        return result
    }

    private func disjunction(_ operands: [BoundExpression], _ row: borrowing Row) throws -> Value? {
        var result: Value? = false
        for operand in operands {
            result = Truth.or(result, try evaluate(operand, row))
            if case .bool(true)? = result { return result }
        }
        return result
    }

    private func conditional(
        _ operand: BoundExpression?, _ branches: [BoundExpression.Branch], _ otherwise: BoundExpression,
        _ row: borrowing Row
    ) throws -> Value? {
        let value: Value? = if let operand { try evaluate(operand, row) } else { true }
        for branch in branches {
            let condition = try evaluate(branch.condition, row)
            let truth = operand == nil ? condition : Truth.compare(.equal, value, condition)
            if case .bool(true)? = truth { return try evaluate(branch.result, row) }
        }
        return try evaluate(otherwise, row)
    }

    // MARK: Membership

    private func membership(
        _ value: Value?, _ elements: [BoundExpression], _ row: borrowing Row
    ) throws -> Value? {
        guard let value else { return nil }
        if case .null = value { return .null }
        try walked(value, row)
        var isUnknown = false
        for element in elements {
            let candidate = try evaluate(element, row)
            if ValueOrder.comparison(value, candidate) == 0 { return true }
            if candidate == nil || candidate == .some(.null) { isUnknown = true }
        }
        return isUnknown ? .null : false
    }

    private static func membership(_ value: Value?, _ collection: Value?) -> Value? {
        guard let value, let collection else { return nil }
        if case .null = value { return .null }
        if case .null = collection { return .null }
        guard case .array(let elements) = collection else { return nil }
        var isUnknown = false
        for candidate in elements {
            if ValueOrder.comparison(value, candidate) == 0 { return true }
            if case .null = candidate { isUnknown = true }
        }
        return isUnknown ? .null : false
    }

    // MARK: Parts and patterns

    /// `array[0]`, `array[-1]` from the end, `object['key']`.
    private static func element(of base: Value?, _ index: Value?) -> Value? {
        switch (base, index) {
        case (.array(let elements)?, .int(let index)?):
            let place = index < 0 ? Int64(elements.count) + max(index, -.max) : index
            guard place >= 0, place < elements.count else { return nil }
            return elements[Int(place)]
        case (.object(let object)?, .string(let key)?): return object[key]
        default: return nil
        }
    }

    private func like(_ value: Value?, _ matcher: LikeMatcher, _ row: borrowing Row) throws -> Value? {
        let pattern: LikePattern
        switch matcher {
        case .prepared(let prepared): pattern = prepared
        case .computed(let expression, let escape, let ignoresCase):
            let text = try evaluate(expression, row)
            guard case .string(let text)? = text else { return Truth.incomparable(value, text) }
            // The pattern is built for this one match, one element per character.
            try row.meter?.work(bytes: text.utf8.count * DQLLimits.elementBytes)
            guard let escape else {
                pattern = LikePattern(text, ignoresCase: ignoresCase)
                break
            }
            guard let scalar = LikeMatcher.escapeCharacter(try evaluate(escape, row)) else { return nil }
            pattern = LikePattern(text, escape: scalar, ignoresCase: ignoresCase)
        }
        switch value {
        case .string(let text)?:
            // Counted before the match begins; a long match checks on its way whether to go on.
            let meter = row.meter
            try meter?.work(bytes: pattern.work(textBytes: text.utf8.count))
            return .bool(try pattern.matches(text) { try meter?.check() })
        case .null?: return .null
        default: return nil
        }
    }

    private func similar(_ value: Value?, _ matcher: SimilarMatcher, _ row: borrowing Row) throws -> Value? {
        let pattern: SimilarPattern
        switch matcher {
        case .prepared(let prepared): pattern = prepared
        case .computed(let expression, let escape):
            let text = try evaluate(expression, row)
            guard case .string(let text)? = text else { return Truth.incomparable(value, text) }
            var character: Unicode.Scalar? = LikePattern.defaultEscape
            if let escape {
                guard let scalar = LikeMatcher.escapeCharacter(try evaluate(escape, row)) else { return nil }
                character = scalar
            }
            guard let computed = try? SimilarPattern(text, escape: character, isConstant: false) else {
                return nil
            }
            pattern = computed
            // The pattern is built for this one match.
            try row.meter?.work(bytes: pattern.work(textBytes: DQLLimits.elementBytes))
        }
        switch value {
        case .string(let text)?:
            // Counted before the match begins, at its greatest possible cost.
            let meter = row.meter
            try meter?.work(bytes: pattern.work(textBytes: text.utf8.count))
            return .bool(try pattern.matches(text) { try meter?.check() })
        case .null?: return .null
        default: return nil
        }
    }
}
