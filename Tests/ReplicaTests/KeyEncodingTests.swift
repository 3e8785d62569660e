import CRDT
import DQLCorpus
import TestSupport
import Testing

@testable import DQL
@testable import Replica

@Suite("Keys of indexes")
struct KeyEncodingTests {
    @Test("keys sort as the values collate, both ways, whatever the values are")
    func order() {
        var random = SplitMix64(seed: Depth.seed &+ 1)
        for _ in 0..<100_000 {
            let left = RandomValues.next(&random)
            let right = random.chance(30) ? RandomValues.near(left, &random) : RandomValues.next(&random)
            let wanted = ValueOrder.collate(left, right).signum()
            let ascending = compareBytes(key(left), key(right)).signum()
            let descending = compareBytes(key(left, true), key(right, true)).signum()
            #expect(ascending == wanted && descending == -wanted, "\(words(left)) and \(words(right))")
        }
    }

    @Test("no part begins with another one, so that later parts count only where the first ones are equal")
    func composites() {
        var random = SplitMix64(seed: Depth.seed &+ 2)
        for _ in 0..<50_000 {
            let descends = [random.chance(50), random.chance(50)]
            var rows: [[Value?]] = []
            for _ in 0..<2 {
                rows.append([
                    random.chance(50) ? rows.first?[0] : RandomValues.next(&random),
                    RandomValues.next(&random),
                ])
            }
            let first = ValueOrder.collate(rows[0][0], rows[1][0]).signum() * (descends[0] ? -1 : 1)
            let second = ValueOrder.collate(rows[0][1], rows[1][1]).signum() * (descends[1] ? -1 : 1)
            let order = compareBytes(key(rows[0], descends), key(rows[1], descends)).signum()
            #expect(order == (first != 0 ? first : second))
        }
    }

    @Test("of cut keys the greater value never has the lesser key, and no key is longer than it may be")
    func truncation() {
        var random = SplitMix64(seed: Depth.seed &+ 3)
        var cut = 0
        for _ in 0..<5_000 {
            let long = RandomValues.long(&random)
            let other = random.chance(70) ? RandomValues.near(long, &random) : RandomValues.long(&random)
            let order = ValueOrder.collate(long, other).signum()
            let (one, two) = (key(long), key(other))
            #expect(one.count <= DQLLimits.indexPartBytes)
            cut += one.count == DQLLimits.indexPartBytes ? 1 : 0
            #expect(compareBytes(one, two).signum() * order >= 0, "\(order)")
            #expect(compareBytes(key(long, true), key(other, true)).signum() * order <= 0)
        }
        #expect(cut > 2_000)
    }

    @Test("no text that a statement leaves to an exact index is cut")
    func uncut() {
        for byte in ["\u{0}", "\u{1}", "x"] {
            var writer = KeyWriter()
            let text = String(repeating: byte, count: DQLLimits.uncutBytes)
            writer.append(.string(text), isDescending: false)
            #expect(!writer.isTruncated)
        }
    }

    private func key(_ value: Value?, _ isDescending: Bool = false) -> [UInt8] {
        key([value], [isDescending])
    }

    private func key(_ values: [Value?], _ descends: [Bool]) -> [UInt8] {
        var writer = KeyWriter()
        for (value, isDescending) in zip(values, descends) {
            writer.append(value, isDescending: isDescending)
        }
        return writer.bytes
    }

    private func words(_ value: Value?) -> String { value.map { "\($0)" } ?? "missing" }
}

/// Values of every type, those around which an order could go wrong most often.
enum RandomValues {
    static func next(_ random: inout SplitMix64, depth: Int = 2) -> Value? {
        switch random.below(depth > 0 ? 12 : 9) {
        case 0: nil
        case 1: .null
        case 2: .bool(random.chance(50))
        case 3: .int(integer(&random))
        case 4: .double(double(&random))
        case 5, 6: .string(text(&random, length: random.below(4)))
        case 7: .binary((0..<random.below(4)).map { _ in random.pick([0, 1, 2, 0x7F, 0xFE, 0xFF]) })
        case 8: .int(Int64(random.below(5)) - 2)
        case 9, 10: .array((0..<random.below(4)).compactMap { _ in next(&random, depth: depth - 1) })
        default:
            .object(
                ObjectValue(
                    (0..<random.below(4)).compactMap { _ -> ObjectValue.Entry? in
                        let key = text(&random, length: random.below(3))
                        return next(&random, depth: depth - 1).map { (key: key, value: $0) }
                    }))
        }
    }

    /// A value that differs little, or only in its type, or not at all.
    static func near(_ value: Value?, _ random: inout SplitMix64) -> Value? {
        switch value {
        case .int(let number)?:
            switch random.below(4) {
            case 0: .double(Double(number))
            case 1: .int(number &+ 1)
            case 2: .double(Double(number).nextUp)
            default: .int(number &- 1)
            }
        case .double(let number)?:
            random.chance(50) ? .double(number.nextUp) : Int64(exactly: number.rounded()).map { .int($0) }
        case .string(let text)?: .string(random.chance(50) ? text + "\u{0}" : text + "\u{1}")
        case .binary(let run)?: .binary(run + [UInt8(random.below(3))])
        case .array(let elements)?:
            .array(random.chance(50) ? elements + [.bool(false)] : Array(elements.dropLast()))
        case .object(let object)?:
            .object(ObjectValue(object.entries.map { (key: $0.key, value: near($0.value, &random) ?? 0) }))
        default: value
        }
    }

    static func long(_ random: inout SplitMix64) -> Value {
        let length = DQLLimits.indexPartBytes - 6 + random.below(12)
        let text = text(&random, length: length)
        return switch random.below(5) {
        case 0: .binary(Array(text.utf8))
        case 1: .array((0..<length).map { .int(Int64($0)) } + [.string(text)])
        case 2: .object(ObjectValue([(key: text, value: .int(1))]))
        case 3: .array([.string(text), .int(Int64(random.below(2)))])
        default: .string(text)
        }
    }

    private static func text(_ random: inout SplitMix64, length: Int) -> String {
        var scalars = String.UnicodeScalarView()
        for _ in 0..<length {
            scalars.append(random.pick(["a", "b", "\u{0}", "\u{1}", "\u{2}", "é", "中", "\u{10FFFF}"]))
        }
        return String(scalars)
    }

    private static func integer(_ random: inout SplitMix64) -> Int64 {
        let bits = Int64(bitPattern: random.next())
        return random.pick([bits, bits >> random.below(64), .max, .min, 1 << 53, -(1 << 53), (1 << 53) + 1])
    }

    private static func double(_ random: inout SplitMix64) -> Double {
        let whole = Double(integer(&random))
        return random.pick([
            whole, whole.nextUp, whole.nextDown, whole / 3, .nan, .infinity, -.infinity, 0, -0.0,
            .leastNonzeroMagnitude, -.leastNonzeroMagnitude, 0x1p63, -0x1p63,
            Double(bitPattern: random.next()),
        ])
    }
}
