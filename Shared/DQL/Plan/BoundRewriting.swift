import CRDT

extension BoundExpression {
    /// The same expression with its direct children replaced.
    func mapChildren(_ transform: (BoundExpression) -> BoundExpression) -> BoundExpression {
        Preparation.pass()
        return switch self {
        case .constant, .parameter, .field, .documentID, .document, .slot, .local, .conflicts: self
        case .element(let base, let index): .element(transform(base), transform(index))
        case .negate(let operand): .negate(transform(operand))
        case .not(let operand): .not(transform(operand))
        case .arithmetic(let symbol, let left, let right):
            .arithmetic(symbol, transform(left), transform(right))
        case .chain(let first, let links):
            .chain(
                transform(first), links.map { ChainStep(symbol: $0.symbol, operand: transform($0.operand)) })
        case .comparison(let symbol, let left, let right):
            .comparison(symbol, transform(left), transform(right))
        case .and(let operands): .and(operands.map(transform))
        case .or(let operands): .or(operands.map(transform))
        case .xor(let left, let right): .xor(transform(left), transform(right))
        case .between(let value, let low, let high):
            .between(transform(value), low: transform(low), high: transform(high))
        case .inList(let value, let elements): .inList(transform(value), elements.map(transform))
        case .inCollection(let value, let collection): .inCollection(transform(value), transform(collection))
        case .inSet(let value, let set): .inSet(transform(value), set)
        case .like(let value, let matcher): .like(transform(value), matcher.mapChildren(transform))
        case .similar(let value, let matcher): .similar(transform(value), matcher.mapChildren(transform))
        case .quantified(let quantified): .quantified(quantified.mapChildren(transform))
        case .comprehension(let comprehension): .comprehension(comprehension.mapChildren(transform))
        case .isNull(let operand): .isNull(transform(operand))
        case .isMissing(let operand): .isMissing(transform(operand))
        case .conditional(let operand, let branches, let otherwise):
            .conditional(
                operand: operand.map(transform),
                branches: branches.map {
                    Branch(condition: transform($0.condition), result: transform($0.result))
                },
                otherwise: transform(otherwise))
        case .array(let elements): .array(elements.map(transform))
        case .object(let entries): .object(entries.map { Entry(key: $0.key, value: transform($0.value)) })
        case .call(let call):
            .call(
                BoundCall(
                    function: call.function, arguments: call.arguments.map(transform), prepared: call.prepared
                ))
        }
    }

    /// The expression with its parameters replaced by their arguments, and the parts that are known then
    /// computed: sets for IN, patterns for LIKE. Done once per execution.
    func specialized(_ arguments: [Value]) -> BoundExpression {
        if case .parameter(let index) = self { return .constant(arguments[index]) }
        return mapChildren { $0.specialized(arguments) }.prepared
    }

    /// The expression with known right sides of membership tests and patterns prepared.
    var prepared: BoundExpression {
        switch self {
        case .inCollection(let value, .constant(.array(let elements)?))
        where elements.count >= DQLLimits.setLookupElements:
            return .inSet(value, ValueSet(elements))
        case .inList(let value, let elements) where elements.count >= DQLLimits.setLookupElements:
            let known = elements.compactMap { if case .constant(let value?) = $0 { value } else { nil } }
            return known.count == elements.count ? .inSet(value, ValueSet(known)) : self
        case .like(let value, .computed(.constant(.string(let pattern)?), nil, let ignoresCase)):
            return .like(value, .prepared(LikePattern(pattern, ignoresCase: ignoresCase)))
        case .like(
            let value, .computed(.constant(.string(let pattern)?), .constant(let escape)?, let ignoresCase)):
            guard let scalar = LikeMatcher.escapeCharacter(escape) else { return .constant(nil) }
            return .like(value, .prepared(LikePattern(pattern, escape: scalar, ignoresCase: ignoresCase)))
        case .similar(let value, let matcher): return .similar(value, matcher.prepared)
        case .call(let call) where call.prepared == nil:
            let known = call.arguments.map { argument -> KnownArgument in
                if case .constant(let value) = argument { .known(value) } else { .unknown }
            }
            return .call(
                BoundCall(
                    function: call.function, arguments: call.arguments,
                    prepared: call.function.prepare(known)))
        default: return self
        }
    }

    /// True if evaluating it can take much longer than walking through it: it visits the elements of a
    /// collection, makes texts of any length, or matches a pattern that backtracks in its text or reads each
    /// character many times.
    var needsMeter: Bool {
        switch self {
        case .quantified, .comprehension, .call, .arithmetic(.concat, _, _): return true
        case .chain(_, let links) where links.contains { $0.symbol == .concat }: return true
        case .like(_, .computed), .similar: return true
        case .like(_, .prepared(let pattern))
        where pattern.work(textBytes: 1) > DQLLimits.uncountedPatternWork:
            return true
        default:
            var found = false
            _ = mapChildren { child in
                found = found || child.needsMeter
                return child
            }
            return found
        }
    }
}

extension BoundExpression {
    /// A hash: the same for equal expressions, and mostly different for others. Finds one among many.
    var fingerprint: Int {
        var hasher = Hasher()
        fingerprint(&hasher)
        return hasher.finalize()
    }

    private func fingerprint(_ hasher: inout Hasher) {
        switch self {
        case .field(let access), .conflicts(let access):
            hasher.combine(access.source)
            for name in access.path { hasher.combine(Array(name.utf8)) }
        case .constant(.int(let number)?): hasher.combine(number)
        case .constant(.string(let text)?): hasher.combine(Array(text.utf8))
        case .parameter(let place), .slot(let place), .local(let place): hasher.combine(place)
        case .call(let call): hasher.combine(call.function.name)
        default: break
        }
        var children = 0
        _ = mapChildren { child in
            child.fingerprint(&hasher)
            children += 1
            return child
        }
        hasher.combine(children)
    }
}
