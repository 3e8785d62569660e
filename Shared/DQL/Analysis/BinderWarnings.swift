import CRDT

/// The types that are known before a statement runs. A register can hold anything, so most fields have none.
enum StaticType: String, Sendable {
    case boolean, number, string, binary, array, object

    init?(_ value: Value?) {
        switch value {
        case nil, .null?: return nil
        case .bool?: self = .boolean
        case .int?, .double?: self = .number
        case .string?: self = .string
        case .binary?: self = .binary
        case .array?: self = .array
        case .object?: self = .object
        }
    }

    /// The type of an operator's result, unless it is null or MISSING.
    init(_ symbol: BinaryOperator) {
        switch symbol {
        case .concat: self = .string
        case _ where symbol.precedence > Precedence.comparison: self = .number
        default: self = .boolean
        }
    }

    /// The type with an article, for messages.
    var named: String { (self == .array || self == .object ? "an " : "a ") + rawValue }

    init?(_ expression: BoundExpression) {
        switch expression {
        case .constant(let value): self.init(value)
        case .field(let access):
            switch access.declaration?.kind {
            case .counter?: self = .number
            case .map?, .attachment?: self = .object
            default: return nil
            }
        case .document: self = .object
        case .negate: self = .number
        case .arithmetic(let symbol, _, _): self.init(symbol)
        case .chain(_, let links):
            self.init(links[links.count - 1].symbol)
        case .not, .comparison, .and, .or, .xor, .between, .inList, .inCollection, .inSet, .like, .similar,
            .isNull, .isMissing, .quantified:
            self = .boolean
        case .array, .conflicts: self = .array
        case .object: self = .object
        case .comprehension(let comprehension): self = comprehension.key == nil ? .array : .object
        case .call(let call):
            guard let type = call.function.resultType else { return nil }
            self = type
        default: return nil
        }
    }
}

extension Binder {
    /// Warns if a value can never be equal to, less than or greater than the values it is compared with.
    /// Returns whether it did.
    mutating func warnAboutComparison(
        _ value: BoundExpression, _ others: [BoundExpression], at span: SourceSpan
    ) -> Bool {
        let type = staticType(value)
        for other in others {
            let areWritten = if case (.constant, .constant) = (value, other) { true } else { false }
            if areWritten, others.count > 1 { continue }
            if let type, let otherType = staticType(other), type != otherType {
                warn(
                    .neverEqual,
                    "\(type.named) is compared with \(otherType.named): that is never true", at: span)
                return true
            }
            if areWritten { continue }
            if Self.isQuotedBoolean(value, other) || Self.isQuotedBoolean(other, value) {
                warn(
                    .booleanAsText, "this compares with a text in quotes, not with the boolean true or false",
                    at: span)
                return true
            }
            if let test = Self.absence(value) ?? Self.absence(other) { return warn(about: test, at: span) }
        }
        return false
    }

    /// Warns if NULL or MISSING is written among the values with which a value of documents is compared.
    /// Returns whether it did.
    @inline(never)
    mutating func warnAboutAbsence(
        of value: BoundExpression, _ others: [BoundExpression], at span: SourceSpan
    ) -> Bool {
        if case .constant = value { return false }
        guard let test = others.lazy.compactMap(Self.absence).first else { return false }
        return warn(about: test, at: span)
    }

    private mutating func warn(about test: String, at span: SourceSpan) -> Bool {
        warn(.nullComparison, "a comparison with \(test) is never true; write IS \(test)", at: span)
        return true
    }

    /// Warns about a sort term or group key that is the same for all rows.
    mutating func warnAboutKey(
        _ key: BoundExpression, _ written: ExpressionSyntax, _ clause: String
    ) {
        let advice: String
        switch key {
        case .constant(.int?): advice = "columns have no numbers, so name the field"
        case .constant(.string?): advice = "a text is no name, so write the field without quotes"
        case .parameter: advice = "an argument is a value and no name, so write the field itself"
        case .constant: advice = "name a field"
        case _ where key.isOneValue: advice = "it is one value for all rows, so name a field"
        default: return
        }
        let effect = clause == "GROUP BY" ? "makes one group of all rows" : "leaves the order open"
        warn(
            .constantKey, "\(clause) \(shown(written.span)) \(effect): \(advice)", at: written.span)
    }

    /// Warns about a number of which nothing is left.
    mutating func warnAboutZero(_ span: SourceSpan) {
        let utf8 = source.text.utf8
        guard span.start < span.end, span.end <= utf8.count else { return }
        let start = utf8.index(utf8.startIndex, offsetBy: span.start)
        let digits = utf8[start..<utf8.index(start, offsetBy: span.end - span.start)]
            .prefix { $0 | 0x20 != UInt8(ascii: "e") }
        guard digits.contains(where: { (0x31...0x39).contains($0) }) else { return }
        warn(.numberTooSmall, "\(shown(span)) is too small for a double, and is 0.0", at: span)
    }

    /// The elements of an array that the statement writes.
    static func elements(_ collection: BoundExpression) -> [BoundExpression] {
        switch collection {
        case .array(let elements): elements
        case .constant(.array(let values)?): values.map { .constant($0) }
        default: []
        }
    }

    /// Warns about `_id = id`: the right side is a field of the document, which is hardly ever meant.
    mutating func warnAboutNames(
        _ left: ExpressionSyntax, _ boundLeft: BoundExpression, _ right: ExpressionSyntax,
        _ boundRight: BoundExpression, at span: SourceSpan
    ) {
        let name: NameSyntax
        switch (boundLeft, boundRight, left.kind, right.kind) {
        case (.documentID, .field, _, .name(let written)): name = written
        case (.field, .documentID, .name(let written), _): name = written
        default: return
        }
        warn(
            .fieldForArgument,
            "\(name.text) is read as a field of the document; an argument is written :\(name.text)",
            at: name.span)
    }

    static func absence(_ literal: BoundExpression) -> String? {
        switch literal {
        case .constant(nil): "MISSING"
        case .constant(.null?): "NULL"
        default: nil
        }
    }

    private static func isQuotedBoolean(_ field: BoundExpression, _ literal: BoundExpression) -> Bool {
        guard case .field = field, case .constant(.string(let text)?) = literal else { return false }
        return ["true", "false"].contains(text.lowercased())
    }
}

extension FunctionDefinition.ArgumentType {
    /// Returns whether values of a type can be arguments.
    func accepts(_ type: StaticType) -> Bool {
        switch (self, type) {
        case (.any, _), (.string, .string), (.number, .number), (.integer, .number), (.boolean, .boolean),
            (.array, .array), (.object, .object), (.date, .string), (.date, .number):
            true
        default: false
        }
    }
}

extension BoundExpression {
    /// True if operators make the expression of constants and arguments alone.
    fileprivate var isOneValue: Bool {
        switch self {
        case .constant, .parameter: true
        case .negate(let inner): inner.isOneValue
        case .arithmetic(_, let left, let right): left.isOneValue && right.isOneValue
        case .chain(let first, let links): first.isOneValue && links.allSatisfy(\.operand.isOneValue)
        default: false
        }
    }
}
