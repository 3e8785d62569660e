@testable import CRDT

/// Amounts of counters: 64-bit integers that wrap, or doubles that stay within their range.
enum Amount {
    static func sum(_ left: Value, _ right: Value) -> Value {
        if case .int(let a) = left, case .int(let b) = right { return .int(a &+ b) }
        return bounded(double(left) + double(right))
    }

    static func difference(_ left: Value, _ right: Value) -> Value {
        if case .int(let a) = left, case .int(let b) = right { return .int(a &- b) }
        return bounded(double(left) - double(right))
    }

    private static func bounded(_ number: Double) -> Value {
        .double(min(max(number, -.greatestFiniteMagnitude), .greatestFiniteMagnitude))
    }

    private static func double(_ value: Value) -> Double {
        switch value {
        case .int(let number): Double(number)
        case .double(let number): number
        default: preconditionFailure("an amount is a number")
        }
    }
}
