import CRDT

/// A condition, or a part of one, over fields and known values, prepared for testing many documents in
/// place: it creates no values and allocates nothing. Its answer is true, false, or nil if the evaluator has
/// to decide.
///
/// Belongs to one execution on one thread.
class DocumentTest {
    func holds(_ document: DocumentReader) -> Bool? { preconditionFailure("each kind of test answers") }

    /// The test of a condition on the documents of a source; nil if only the evaluator can decide it.
    static func prepare(_ condition: BoundExpression, source: Int) -> DocumentTest? {
        switch condition {
        case .and(let operands):
            if let test = NumberTest.between(operands, source) { return test }
            let tests = operands.compactMap { prepare($0, source: source) }
            return tests.count == operands.count ? JunctionTest(all: tests) : nil
        case .or(let operands):
            let tests = operands.compactMap { prepare($0, source: source) }
            return tests.count == operands.count ? JunctionTest(any: tests) : nil
        case .comparison(let symbol, let field, .constant(let value?)):
            return comparison(symbol, field, value, source)
        case .comparison(let symbol, .constant(let value?), let field):
            return comparison(symbol.mirrored, field, value, source)
        case .between(let field, .constant(let low?), .constant(let high?)):
            guard let from = comparison(.greaterOrEqual, field, low, source),
                let to = comparison(.lessOrEqual, field, high, source)
            else { return nil }
            return JunctionTest(all: [from, to])
        case .isMissing(let field): return cursor(field, source).map { PresenceTest($0, wanted: .missing) }
        case .isNull(let field): return cursor(field, source).map { PresenceTest($0, wanted: .null) }
        case .not(.isMissing(let field)):
            return cursor(field, source).map { PresenceTest($0, wanted: .missing, isNegated: true) }
        case .not(.isNull(let field)):
            return cursor(field, source).map { PresenceTest($0, wanted: .null, isNegated: true) }
        case .field: return cursor(condition, source).map { BooleanTest($0, .equal, true) }
        default: return nil
        }
    }

    /// The test of as many operands of a condition as possible, and the rest of the condition.
    static func split(
        _ condition: BoundExpression, source: Int
    ) -> (test: DocumentTest?, rest: BoundExpression?) {
        if let test = prepare(condition, source: source) { return (test, nil) }
        guard case .and(let operands) = condition else { return (nil, condition) }
        var tests: [DocumentTest] = []
        var rest: [BoundExpression] = []
        for operand in operands {
            if let test = prepare(operand, source: source) {
                tests.append(test)
            } else {
                rest.append(operand)
            }
        }
        return (tests.isEmpty ? nil : JunctionTest(all: tests), rest.count == 1 ? rest[0] : .and(rest))
    }

    /// A cursor for a field that is read as an undeclared one.
    static func cursor(_ expression: BoundExpression, _ source: Int) -> FieldCursor? {
        Confinement.field(expression, source).map(FieldCursor.init(path:))
    }

    private static func comparison(
        _ symbol: BinaryOperator, _ field: BoundExpression, _ value: Value, _ source: Int
    ) -> DocumentTest? {
        guard let cursor = cursor(field, source) else { return nil }
        switch value {
        case .string(let text):
            return symbol == .equal ? SameTextTest(cursor, text) : TextTest(cursor, symbol, text)
        case .int, .double: return NumberTest(cursor, NumberBound(symbol, value))
        case .bool(let flag): return BooleanTest(cursor, symbol, flag)
        default: return nil
        }
    }
}

/// Tests without a reference count per use: counting costs as much as a test.
private final class TestList {
    // Kept alive by `owned`, which lives as long as this list.
    private let tests: UnsafeMutableBufferPointer<Unmanaged<DocumentTest>>
    private let owned: [DocumentTest]

    init(_ tests: [DocumentTest]) {
        owned = tests
        self.tests = .allocate(capacity: tests.count)
        _ = self.tests.initialize(from: tests.map { Unmanaged.passUnretained($0) })
    }

    deinit { tests.deallocate() }

    var count: Int { tests.count }

    @inline(__always)
    func holds(_ index: Int, _ document: DocumentReader) -> Bool? {
        tests[index]._withUnsafeGuaranteedRef { $0.holds(document) }
    }
}

/// Tests whether all hold, or any: the first test that decides ends it.
private final class JunctionTest: DocumentTest {
    private let tests: TestList
    private let decisive: Bool

    init(all tests: [DocumentTest]) { (self.tests, decisive) = (TestList(tests), false) }

    init(any tests: [DocumentTest]) { (self.tests, decisive) = (TestList(tests), true) }

    override func holds(_ document: DocumentReader) -> Bool? {
        var isKnown = true
        for index in 0..<tests.count {
            guard let holds = tests.holds(index, document) else {
                isKnown = false
                continue
            }
            if holds == decisive { return decisive }
        }
        return isKnown ? !decisive : nil
    }
}

/// The orders of two values that satisfy a comparison.
struct OrderTest {
    private let less: Bool
    private let equal: Bool
    private let greater: Bool

    init(_ symbol: BinaryOperator) {
        less = Truth.holds(symbol, -1)
        equal = Truth.holds(symbol, 0)
        greater = Truth.holds(symbol, 1)
    }

    @inline(__always)
    func holds(_ order: Int) -> Bool { order < 0 ? less : order == 0 ? equal : greater }
}

/// Compares a field with a text.
private final class TextTest: DocumentTest {
    private let cursor: FieldCursor
    private let order: OrderTest
    private let text: UnsafeRawBufferPointer

    init(_ cursor: FieldCursor, _ symbol: BinaryOperator, _ text: String) {
        self.cursor = cursor
        order = OrderTest(symbol)
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, text.utf8.count), alignment: 1)
        copy.copyBytes(from: text.utf8)
        self.text = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(copy)[0..<text.utf8.count])
    }

    deinit { UnsafeMutableRawPointer(mutating: text.baseAddress)?.deallocate() }

    override func holds(_ document: DocumentReader) -> Bool? {
        switch cursor.find(in: document) {
        case .missing: return false
        case .other: return nil
        case .value(let value):
            guard case .text(let found) = value.content else { return false }
            return order.holds(compareBytes(found, text))
        }
    }
}

/// Tests whether a field is a given text: its encoding is equal exactly then.
private final class SameTextTest: DocumentTest {
    private let cursor: FieldCursor
    private let text: EncodedText

    init(_ cursor: FieldCursor, _ text: String) {
        self.cursor = cursor
        self.text = EncodedText(text)
    }

    override func holds(_ document: DocumentReader) -> Bool? { cursor.holds(text, in: document) }
}

/// A number that fields are compared with.
private struct NumberBound {
    private let order: OrderTest
    private let number: Value
    private let int: Int64
    private let isInt: Bool

    init(_ symbol: BinaryOperator, _ number: Value) {
        order = OrderTest(symbol)
        self.number = number
        int = number.intValue ?? 0
        isInt = number.intValue != nil
    }

    @inline(__always)
    func holds(_ found: Int64) -> Bool {
        if isInt { return order.holds(found < int ? -1 : found > int ? 1 : 0) }
        return order.holds(ValueOrder.collate(.int(found), number))
    }

    func holds(_ found: Double) -> Bool { order.holds(ValueOrder.collate(.double(found), number)) }
}

/// Compares a field with a number, or with two bounds.
private final class NumberTest: DocumentTest {
    private let cursor: FieldCursor
    private let bound: NumberBound
    private let other: NumberBound?

    init(_ cursor: FieldCursor, _ bound: NumberBound, _ other: NumberBound? = nil) {
        self.cursor = cursor
        self.bound = bound
        self.other = other
    }

    override func holds(_ document: DocumentReader) -> Bool? {
        switch cursor.find(in: document) {
        case .missing: return false
        case .other: return nil
        case .value(let value):
            switch value.content {
            case .int(let found): return bound.holds(found) && other?.holds(found) ?? true
            case .double(let found): return bound.holds(found) && other?.holds(found) ?? true
            default: return false
            }
        }
    }

    /// The test of two comparisons of one field with numbers, which looks the field up once.
    static func between(_ operands: [BoundExpression], _ source: Int) -> NumberTest? {
        guard operands.count == 2,
            case .comparison(let first, .field(let field), .constant(let low?)) = operands[0],
            case .comparison(let second, .field(let other), .constant(let high?)) = operands[1],
            field == other, low.isNumber, high.isNumber,
            let cursor = DocumentTest.cursor(.field(field), source)
        else { return nil }
        return NumberTest(cursor, NumberBound(first, low), NumberBound(second, high))
    }
}

extension Value {
    fileprivate var isNumber: Bool {
        switch self {
        case .int, .double: true
        default: false
        }
    }
}

/// Compares a field with true or false.
private final class BooleanTest: DocumentTest {
    private let cursor: FieldCursor
    private let order: OrderTest
    private let flag: Bool

    init(_ cursor: FieldCursor, _ symbol: BinaryOperator, _ flag: Bool) {
        self.cursor = cursor
        order = OrderTest(symbol)
        self.flag = flag
    }

    override func holds(_ document: DocumentReader) -> Bool? {
        switch cursor.find(in: document) {
        case .missing: return false
        case .other: return nil
        case .value(let value):
            guard case .bool(let found) = value.content else { return false }
            return order.holds((found ? 1 : 0) - (flag ? 1 : 0))
        }
    }
}

/// Tests IS NULL and IS MISSING.
private final class PresenceTest: DocumentTest {
    private let cursor: FieldCursor
    private let wanted: ValueClass
    private let isNegated: Bool

    init(_ cursor: FieldCursor, wanted: ValueClass, isNegated: Bool = false) {
        self.cursor = cursor
        self.wanted = wanted
        self.isNegated = isNegated
    }

    override func holds(_ document: DocumentReader) -> Bool? {
        switch cursor.find(in: document) {
        case .missing: return (wanted == .missing) != isNegated
        case .other: return nil
        case .value(let value):
            guard wanted == .null, case .null = value.content else { return isNegated }
            return !isNegated
        }
    }
}
