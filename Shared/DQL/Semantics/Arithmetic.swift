import CRDT

/// Arithmetic (spec 2.5 and Decisions). Integers stay integers until they overflow, then the result is a
/// float. Division by zero is NULL. An operand that is MISSING or not a number gives MISSING; a NULL operand
/// gives NULL.
enum Arithmetic {
    static func apply(_ symbol: BinaryOperator, _ left: Value?, _ right: Value?) -> Value? {
        switch (left, right) {
        case (nil, _), (_, nil): return nil
        case (.null?, _), (_, .null?): return .null
        case (.string(let a)?, .string(let b)?) where symbol == .concat:
            return a.utf8.count + b.utf8.count <= DQLLimits.resultBytes ? .string(a + b) : nil
        case (.int(let a)?, .int(let b)?): return integers(symbol, a, b)
        case (.int(let a)?, .double(let b)?): return doubles(symbol, Double(a), b)
        case (.double(let a)?, .int(let b)?): return doubles(symbol, a, Double(b))
        case (.double(let a)?, .double(let b)?): return doubles(symbol, a, b)
        default: return nil
        }
    }

    static func negate(_ value: Value?) -> Value? {
        switch value {
        case .int(let number)?: number == .min ? .double(0x1p63) : .int(-number)
        case .double(let number)?: .double(-number)
        case .null?: .null
        default: nil
        }
    }

    private static func integers(_ symbol: BinaryOperator, _ left: Int64, _ right: Int64) -> Value? {
        let exact: (partialValue: Int64, overflow: Bool)
        switch symbol {
        case .add: exact = left.addingReportingOverflow(right)
        case .subtract: exact = left.subtractingReportingOverflow(right)
        case .multiply: exact = left.multipliedReportingOverflow(by: right)
        case .divide:
            if right == 0 { return .null }
            exact = left.dividedReportingOverflow(by: right)
        case .modulo:
            if right == 0 { return .null }
            return .int(right == -1 ? 0 : left % right)
        case .shiftLeft: return .int(left << right)
        case .shiftRight: return .int(left >> right)
        default: return nil
        }
        return exact.overflow ? doubles(symbol, Double(left), Double(right)) : .int(exact.partialValue)
    }

    private static func doubles(_ symbol: BinaryOperator, _ left: Double, _ right: Double) -> Value? {
        switch symbol {
        case .add: .double(left + right)
        case .subtract: .double(left - right)
        case .multiply: .double(left * right)
        case .divide: right == 0 ? .null : .double(left / right)
        case .modulo: right == 0 ? .null : .double(left.truncatingRemainder(dividingBy: right))
        default: nil
        }
    }
}
