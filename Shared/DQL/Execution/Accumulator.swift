import CRDT

/// One aggregate of one group, fed row by row (spec 2.9).
struct Accumulator {
    private let kind: AggregateKind
    private let isDistinct: Bool
    private var seen: Set<ValueKey>?
    private var count: Int64 = 0
    private var sum = Sum()
    private var least: Value?
    private var greatest: Value?
    /// Used by MEDIAN only, which needs all numbers.
    private var numbers: [Value] = []
    /// How many values a sum or mean left out because they are no numbers.
    private(set) var leftOut = 0

    init(_ aggregate: BoundAggregate) {
        kind = aggregate.kind
        isDistinct = aggregate.isDistinct
        seen = aggregate.isDistinct ? [] : nil
    }

    /// How many values are held.
    var held: Int { numbers.count + (seen?.count ?? 0) }
    /// The memory of the distinct values and of the extremes, in bytes; small values count nothing.
    private(set) var heldBytes = 0

    /// Adds a row to COUNT(*).
    mutating func addRow() { count += 1 }

    /// Adds this many rows to COUNT(*).
    mutating func add(rows: Int64) { count += rows }

    /// Adds an argument that this many rows have; not for sums and medians.
    mutating func add(_ value: Value?, times: Int64) {
        let (before, leftOutBefore) = (count, leftOut)
        add(value)
        leftOut += (leftOut - leftOutBefore) * Int(times - 1)
        if kind == .count, !isDistinct { count += (count - before) * (times - 1) }
    }

    /// Adds the part of a group that SQL made.
    /// - Throws: `Undecidable` if the order of the documents matters, which the parts do not tell.
    mutating func add(_ part: PushedPart) throws(Undecidable) {
        switch kind {
        case .count: count += part.count(0)
        case .sum, .avg:
            // Doubles of two parts would have to be added in turns.
            guard part.count(3) == 0 || !sum.hasFloats else { throw Undecidable() }
            count += part.count(1) + part.count(3)
            sum.add(total: part.total(0))
            if part.count(3) > 0 { sum.add(part.double(2)) }
            leftOut += Int(part.count(4))
        case .min, .max:
            let scalars =
                (part.text(0).map { [Value.bool($0 == "true")] } ?? []) + (try part.numbers(1, 2))
                + (part.text(3).map { [Value.string($0)] } ?? [])
            // Arrays and objects come after everything else.
            guard part.count(4) == 0 || kind == .min && !scalars.isEmpty else { throw Undecidable() }
            try addExtremes(scalars)
        case .mid:
            try addExtremes(try part.numbers(0, 1) + part.numbers(2, 3))
            leftOut += Int(part.count(4))
        case .median:
            let more = try part.list(0)
            // Equal numbers may differ in form, like 1 and 1.0: the first document's form is shown.
            guard numbers.isEmpty || more.isEmpty || Self.areAlike(numbers + more) else {
                throw Undecidable()
            }
            for number in more { add(number) }
            leftOut += Int(part.count(1))
        }
    }

    private static func areAlike(_ numbers: [Value]) -> Bool {
        numbers.allSatisfy { $0.typeName == numbers[0].typeName }
    }

    /// Adds the least and greatest values of a part. One that equals an extreme of another part may be the
    /// first of them, which shows as `1` or `1.0`.
    private mutating func addExtremes(_ values: [Value]) throws(Undecidable) {
        for value in values {
            for known in [least, greatest].compactMap(\.self)
            where ValueOrder.collate(known, value) == 0 && known.typeName != value.typeName {
                throw Undecidable()
            }
            add(value)
        }
    }

    /// Adds a row's argument in place if no value has to be kept; false if the caller has to use `add`.
    mutating func add(inPlace content: EncodedValue.Content) -> Bool {
        guard !isDistinct else { return false }
        switch (kind, content) {
        case (_, .null), (.count, .bool(false)): return true
        case (.count, _): count += 1
        case (.sum, .int(let number)), (.avg, .int(let number)):
            count += 1
            sum.add(number)
        case (.sum, .double(let number)), (.avg, .double(let number)):
            count += 1
            sum.add(number)
        case (.sum, _), (.avg, _): leftOut += 1
        default: return false
        }
        return true
    }

    /// Adds a row's argument.
    mutating func add(_ value: Value?) {
        guard let value else { return }
        guard isCounted(value) else {
            if kind.takesNumbers, value != .null { leftOut += 1 }
            return
        }
        if seen != nil {
            let key = ValueKey(value)
            guard seen?.insert(key).inserted ?? true else { return }
            if key.bytes.count >= DQLLimits.stepBytes { heldBytes += key.bytes.count }
        }
        count += 1
        switch kind {
        case .count: break
        case .sum, .avg: sum.add(value)
        case .min, .max, .mid:
            if least == nil || ValueOrder.collate(value, least) < 0 {
                heldBytes += value.largeBytes - (least?.largeBytes ?? 0)
                least = value
            }
            if greatest == nil || ValueOrder.collate(value, greatest) > 0 {
                heldBytes += value.largeBytes - (greatest?.largeBytes ?? 0)
                greatest = value
            }
        case .median: numbers.append(value)
        }
    }

    /// The aggregate's value; MISSING when no row counted, except for COUNT.
    var result: Value? {
        switch kind {
        case .count: .int(count)
        case _ where count == 0: Value?.none
        case .sum: sum.value
        case .avg: .double(sum.double / Double(count))
        case .min: least
        case .max: greatest
        case .median: median
        case .mid: mean(least, greatest)
        }
    }

    /// The number in the middle, unchanged; of an even count the mean of the two in the middle.
    private var median: Value? {
        let sorted = numbers.sorted { ValueOrder.collate($0, $1) < 0 }
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : mean(sorted[middle - 1], sorted[middle])
    }

    private func mean(_ left: Value?, _ right: Value?) -> Value? {
        guard let left, let right else { return nil }
        var sum = Sum()
        sum.add(left)
        sum.add(right)
        return .double(sum.double / 2)
    }

    /// Returns whether the aggregate counts a value. COUNT skips null, missing and false; SUM, AVG, MEDIAN
    /// and MID skip everything but numbers; MIN and MAX skip null and missing.
    private func isCounted(_ value: Value) -> Bool {
        switch (kind, value) {
        case (_, .null), (.count, .bool(false)): false
        case (.count, _), (.min, _), (.max, _): true
        case (_, .int), (_, .double): true
        default: false
        }
    }
}

/// A sum of numbers. Integers are added exactly, in any order, and become a float at the end if the total
/// does not fit 64 bits; one float among them makes the sum a float.
struct Sum {
    private var low: Int64 = 0
    /// How often the integers' total passed the upper end of the 64-bit range, less how often it passed the
    /// lower.
    private var wraps: Int64 = 0
    private var floats = 0.0
    private(set) var hasFloats = false

    mutating func add(_ value: Value) {
        switch value {
        case .int(let number): add(number)
        case .double(let number): add(number)
        default: break
        }
    }

    mutating func add(_ number: Int64) {
        let (total, overflow) = low.addingReportingOverflow(number)
        low = total
        if overflow { wraps += number > 0 ? 1 : -1 }
    }

    /// Adds the total of many integers.
    mutating func add(total: Int128) {
        add(Int64(truncatingIfNeeded: total))
        // The part that the lower bits leave out is a multiple of 2^64.
        wraps += Int64(truncatingIfNeeded: (total - Int128(Int64(truncatingIfNeeded: total))) >> 64)
    }

    mutating func add(_ number: Double) {
        floats += number
        hasFloats = true
    }

    var value: Value { hasFloats || wraps != 0 ? .double(double) : .int(low) }

    var double: Double { Double(low) + Double(wraps) * 0x1p64 + floats }
}
