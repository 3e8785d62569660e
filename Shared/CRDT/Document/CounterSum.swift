/// The arithmetic of counters: 64-bit totals that wrap, their differences added in 128 bits, doubles added
/// in the order of their actors (rule 4). It never traps and never yields NaN or an infinity.
struct CounterSum {
    private var whole: Int128 = 0
    private var fraction: Double?

    /// A sum that starts at a RESTART's value, or at zero.
    init(start: Value?) {
        switch start {
        case .int(let number)?: whole = Int128(number)
        case .double(let number)?: fraction = number
        default: break
        }
    }

    /// Adds the growth of an actor's total since its baseline.
    mutating func add(_ growth: Value) {
        switch growth {
        case .int(let number): whole += Int128(number)
        case let number: fraction = Self.finite((fraction ?? 0) + Self.double(number))
        }
    }

    /// An integer; a double when a part was one or when 64 bits do not hold the sum.
    var value: Value {
        if let fraction { return .double(Self.finite(Double(whole) + fraction)) }
        return Int64(exactly: whole).map { .int($0) } ?? .double(Double(whole))
    }

    /// A running total after an increment: integers wrap; with a double the total becomes a double.
    static func total(_ total: Value, plus amount: Value) -> Value {
        if case .int(let before) = total, case .int(let more) = amount { return .int(before &+ more) }
        return .double(finite(double(total) + double(amount)))
    }

    /// The growth of a total: integers wrap; with a double the difference becomes a double.
    static func difference(_ total: Value, _ before: Value) -> Value {
        if case .int(let now) = total, case .int(let then) = before { return .int(now &- then) }
        return .double(finite(double(total) - double(before)))
    }

    /// Returns whether sums and differences of two numbers are exact.
    static func areIntegers(_ left: Value, _ right: Value) -> Bool {
        if case (.int, .int) = (left, right) { true } else { false }
    }

    /// Returns whether a value can be an amount, a total or a RESTART's value: an integer or a finite
    /// double.
    static func isNumber(_ value: Value) -> Bool {
        switch value {
        case .int: true
        case .double(let number): number.isFinite
        default: false
        }
    }

    /// A total order of numbers, integers first. Only decides between dishonest writes of one stamp.
    static func isOrdered(_ left: Value, _ right: Value) -> Bool {
        switch (left, right) {
        case (.int(let a), .int(let b)): a < b
        case (.double(let a), .double(let b)): a == b ? a.sign == .minus && b.sign == .plus : a < b
        case (.int, .double): true
        default: false
        }
    }

    private static func double(_ value: Value) -> Double {
        switch value {
        case .int(let number): Double(number)
        case .double(let number): number
        default: 0
        }
    }

    /// Clamps a sum to a double's range, so that no infinity or NaN can follow from it.
    private static func finite(_ number: Double) -> Double {
        min(max(number, -.greatestFiniteMagnitude), .greatestFiniteMagnitude)
    }
}
