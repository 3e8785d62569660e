import CRDT
import Testing

@testable import Replicator

@Suite("Retention by size and age")
struct LogMeasureTests {
    private static let step = Limits.measuredOperations

    /// A measure of so many steps, of operations with ten bytes; each step is a second after the one before.
    private static func measure(steps: UInt64, after offset: Offset = 0) -> LogMeasure {
        var measure = LogMeasure(after: offset)
        for number in 0..<(steps * step) { measure.add(bytes: 10, time: (number / step + 1) * 1_000) }
        return measure
    }

    private static func options(
        kept: UInt64 = 0, age: Duration? = nil, bytes: UInt64? = nil
    ) -> HousekeepingOptions {
        var options = HousekeepingOptions()
        (options.keptOperations, options.keptAge, options.mostBytes) = (kept, age, bytes)
        return options
    }

    @Test("operations of the last hours stay, although their number says otherwise")
    func age() {
        let measure = Self.measure(steps: 10)
        let snapshot = Offset(10 * Self.step)
        let kept = Self.options(age: .seconds(4))
        // At 12 s: what was written after 8 s stays.
        #expect(kept.cut(before: snapshot, measure, at: 12_000) == Offset(8 * Self.step))
        #expect(kept.cut(before: snapshot, measure, at: 2_000) == 0)
        #expect(kept.cut(before: snapshot, nil, at: 12_000) == snapshot)
        let more = Self.options(kept: 9 * Self.step, age: .seconds(4))
        #expect(more.cut(before: snapshot, measure, at: 12_000) == Offset(Self.step))
    }

    @Test("what a backup needs stays, unless there is too much of it")
    func hold() {
        let measure = Self.measure(steps: 10)
        let snapshot = Offset(10 * Self.step)
        let hold = Offset(3 * Self.step)
        #expect(Self.options().cut(before: snapshot, nil, at: 12_000, hold: hold) == hold)
        #expect(Self.options().cut(before: hold, nil, at: 12_000, hold: snapshot) == hold)
        let more = Self.options(kept: 9 * Self.step)
        #expect(more.cut(before: snapshot, measure, at: 12_000, hold: hold) == Offset(Self.step))
        let limited = Self.options(bytes: 4 * Self.step * 10)
        #expect(limited.cut(before: snapshot, measure, at: 12_000, hold: hold) == Offset(8 * Self.step))
    }

    @Test("beyond the most bytes fewer stay than by number and age, and a snapshot is due")
    func bytes() {
        let measure = Self.measure(steps: 10)
        let snapshot = Offset(10 * Self.step)
        let bytes = 4 * Self.step * 10
        let limited = Self.options(kept: 8 * Self.step, age: .seconds(3_600), bytes: bytes)
        #expect(limited.isTooLarge(measure))
        #expect(limited.cut(before: snapshot, measure, at: 12_000) == Offset(8 * Self.step))
        let roomy = Self.options(kept: 8 * Self.step, bytes: 100 * bytes)
        #expect(!roomy.isTooLarge(measure))
        #expect(roomy.cut(before: snapshot, measure, at: 12_000) == Offset(2 * Self.step))
        // Only what the snapshot covers goes.
        #expect(limited.cut(before: Offset(5 * Self.step), measure, at: 12_000) == Offset(5 * Self.step))
    }

    @Test("bytes that were removed count no more")
    func removed() {
        var measure = Self.measure(steps: 10, after: 1_000)
        #expect(measure.bytes == 10 * Self.step * 10)
        measure.cut(through: measure.marks[6].offset)
        #expect(measure.bytes == measure.end.bytes - measure.marks[0].bytes)
        #expect(measure.bytes <= 4 * Self.step * 10)
        #expect(measure.marks.count <= 5)
    }
}
