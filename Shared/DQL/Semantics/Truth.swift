import CRDT

/// Three-valued logic plus MISSING (spec 2.2 and Decisions). A truth value is a `Value?`: a boolean, null, or
/// nil for MISSING; anything that is not a boolean counts as MISSING, like every operand of a wrong type.
enum Truth {
    static func of(_ value: Value?) -> Value? {
        switch value {
        case .bool?, .null?: value
        default: nil
        }
    }

    static func not(_ value: Value?) -> Value? {
        switch of(value) {
        case .bool(let flag)?: .bool(!flag)
        case let other: other
        }
    }

    /// Adds one operand to an AND: false dominates, else MISSING over NULL.
    static func and(_ left: Value?, _ right: Value?) -> Value? {
        switch (of(left), of(right)) {
        case (.bool(false)?, _), (_, .bool(false)?): false
        case (nil, _), (_, nil): nil
        case (.null?, _), (_, .null?): .null
        default: true
        }
    }

    /// Adds one operand to an OR: true dominates, else NULL over MISSING.
    static func or(_ left: Value?, _ right: Value?) -> Value? {
        switch (of(left), of(right)) {
        case (.bool(true)?, _), (_, .bool(true)?): true
        case (.null?, _), (_, .null?): .null
        case (nil, _), (_, nil): nil
        default: false
        }
    }

    /// True when exactly one is; MISSING over NULL.
    static func xor(_ left: Value?, _ right: Value?) -> Value? {
        switch (of(left), of(right)) {
        case (.bool(let a)?, .bool(let b)?): .bool(a != b)
        case (nil, _), (_, nil): nil
        default: .null
        }
    }

    /// The result of a comparison of these operands that is neither true nor false.
    static func incomparable(_ left: Value?, _ right: Value?) -> Value? {
        guard let left, let right else { return nil }
        if case .null = left { return .null }
        if case .null = right { return .null }
        return nil
    }

    static func compare(_ symbol: BinaryOperator, _ left: Value?, _ right: Value?) -> Value? {
        guard let order = ValueOrder.comparison(left, right) else { return incomparable(left, right) }
        return .bool(holds(symbol, order))
    }

    /// Returns whether a comparison holds for two values in this order.
    static func holds(_ symbol: BinaryOperator, _ order: Int) -> Bool {
        switch symbol {
        case .equal: order == 0
        case .notEqual: order != 0
        case .less: order < 0
        case .lessOrEqual: order <= 0
        case .greater: order > 0
        case .greaterOrEqual: order >= 0
        default: preconditionFailure("not a comparison")
        }
    }
}
