import TestSupport
import Testing

@testable import CRDT

@Suite("Counters")
struct CounterTests {
    @Test("increments of two actors add up, whatever the order in which they meet")
    func sum() throws {
        let left = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let right = try edited(at: 11, by: 2) { try $0.increment(["c"], by: -2) }
        #expect(left.merged(right).value["c"] == 3)
        #expect(left.merged(right) == right.merged(left))
        let again = try edited(left.merged(right), at: 20, by: 1) { try $0.increment(["c"], by: 10) }
        #expect(again.value["c"] == 13)
        #expect(again.root["c"]?.counter?[ActorID(1)]?.point.total == 15)
    }

    @Test("an increment by zero makes a counter of zero")
    func zero() throws {
        let document = try edited(at: 10, by: 1) { try $0.increment(["a", "c"], by: 0) }
        #expect(Value.object(document.value) == ["a": ["c": 0]])
    }

    // MARK: RESTART

    @Test("a RESTART discards the increments its writer had seen")
    func observedRestart() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let restarted = try edited(start, at: 20, by: 2) { try $0.restart(["c"], with: 100) }
        #expect(restarted.value["c"] == 100)
        let after = try edited(restarted, at: 40, by: 1) { try $0.increment(["c"], by: 5) }
        #expect(after.value["c"] == 105)
        let again = try edited(after, at: 50, by: 2) { try $0.restart(["c"]) }
        #expect(again.value["c"] == 0)
    }

    @Test("an increment that the RESTART's writer had not seen survives it, whichever is later")
    func concurrentRestart() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let restarted = try edited(start, at: 20, by: 2) { try $0.restart(["c"], with: 100) }
        for time: Timestamp in [15, 30] {
            let more = try edited(start, at: time, by: 1) { try $0.increment(["c"], by: 7) }
            #expect(more.value["c"] == 12)
            #expect(more.merged(restarted).value["c"] == 107)
            #expect(restarted.merged(more) == more.merged(restarted))
        }
    }

    @Test("of two concurrent RESTARTs the later one counts, until one observes both")
    func twoRestarts() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let left = try edited(start, at: 20, by: 1) { try $0.restart(["c"], with: 100) }
        let right = try edited(start, at: 21, by: 2) { try $0.restart(["c"], with: 7) }
        let both = left.merged(right)
        #expect(both.value["c"] == 7)
        #expect(both.root["c"]?.counter?.restarts.count == 2)
        let third = try edited(both, at: 30, by: 3) { try $0.restart(["c"], with: 1) }
        #expect(third.root["c"]?.counter?.restarts.map(\.value) == [1])
    }

    @Test("a value written to a field declared as COUNTER restarts it")
    func settable() throws {
        let type = TypeDeclaration(kind: .map, children: [(key: "c", type: TypeDeclaration(kind: .counter))])
        let start = try edited(at: 10, by: 1) { try $0.increment(["a", "c"], by: 5) }
        let set = try edited(start, at: 20, by: 1) { try $0.set(["a"], ["c": 10, "b": 1], declared: type) }
        #expect(Value.object(set.value) == ["a": ["b": 1, "c": 10]])
        #expect(set.root["a"]?.map?["c"]?.newestKind == .counter)
    }

    // MARK: Removal

    @Test("what is removed is gone for readers, and its baselines stay: later increments count from there")
    func removal() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let removals: [(inout DocumentEditor) throws -> Void] = [
            { try $0.unset(["c"]) }, { try $0.unset(["c"], kind: .counter) }, { $0.delete() },
        ]
        for removal in removals {
            let removed = try edited(start, at: 20, by: 2, removal)
            #expect(removed.value.isEmpty && !removed.isLive)
            #expect(removed.root["c"]?.counter?[ActorID(1)]?.baseline?.total == 5)
            let again = try edited(removed, at: 30, by: 1) { try $0.increment(["c"], by: 2) }
            #expect(again.value["c"] == 2)
            let unseen = try edited(start, at: 15, by: 1) { try $0.increment(["c"], by: 3) }
            #expect(removed.merged(unseen).value["c"] == 3)
            #expect(removed.merged(unseen).isLive)
        }
    }

    @Test("a map that is removed takes its counters with it, below it too; concurrent increments survive")
    func removedMaps() throws {
        let start = try edited(at: 10, by: 1) {
            try $0.set(["m", "x"], 1)
            try $0.increment(["m", "n", "c"], by: 5)
            try $0.restart(["m", "r"], with: 9)
        }
        let removed = try edited(start, at: 20, by: 2) { try $0.unset(["m"]) }
        #expect(removed.value.isEmpty)
        let unseen = try edited(start, at: 21, by: 1) { try $0.increment(["m", "n", "c"], by: 1) }
        #expect(Value.object(removed.merged(unseen).value) == ["m": ["n": ["c": 1]]])
        let again = try edited(removed, at: 30, by: 1) { try $0.set(["m"], ["x": 2]) }
        #expect(Value.object(again.value) == ["m": ["x": 2]])
        let bare = try edited(removed, at: 30, by: 1) { try $0.set(["m"], [:]) }
        #expect(Value.object(bare.value) == ["m": [:]])
    }

    @Test("what is left of a removed counter is not there to be removed once more")
    func residue() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["m", "c"], by: 5) }
        let removed = try edited(start, at: 20, by: 1) { try $0.unset(["m"]) }
        var editor = DocumentEditor(document: removed, stamp: Stamp(time: 30, actor: ActorID(1)))
        try editor.unset(["m", "c"])
        try editor.unset(["m"])
        try editor.unset(["m", "c"], kind: .counter)
        #expect(!editor.hasChanges)
        #expect(editor.newestKind(at: ["m"]) == nil && editor.value(at: ["m", "c"]) == nil)
    }

    // MARK: One transaction

    /// Statements of one transaction on a counter of 5, and the counter after them.
    private static let transactions: [(String, Value?, @Sendable (inout DocumentEditor) throws -> Void)] = [
        (
            "two increments", 8,
            {
                try $0.increment(["c"], by: 1)
                try $0.increment(["c"], by: 2)
            }
        ),
        (
            "an increment taken back", nil,
            {
                try $0.increment(["c"], by: 5)
                try $0.unset(["c"])
            }
        ),
        (
            "a removal before an increment", 3,
            {
                try $0.unset(["c"])
                try $0.increment(["c"], by: 3)
            }
        ),
        (
            "a RESTART before an increment", 105,
            {
                try $0.restart(["c"], with: 100)
                try $0.increment(["c"], by: 5)
            }
        ),
        (
            "an increment before a RESTART", 100,
            {
                try $0.increment(["c"], by: 5)
                try $0.restart(["c"], with: 100)
            }
        ),
        (
            "a RESTART removed", nil,
            {
                try $0.restart(["c"], with: 100)
                try $0.unset(["c"])
            }
        ),
        (
            "a deletion between increments", 1,
            {
                try $0.increment(["c"], by: 5)
                $0.delete()
                try $0.increment(["c"], by: 1)
            }
        ),
        (
            "everything", 4,
            {
                try $0.increment(["c"], by: 5)
                try $0.restart(["c"], with: 100)
                try $0.increment(["c"], by: 5)
                try $0.unset(["c"])
                try $0.increment(["c"], by: 1)
                try $0.increment(["c"], by: 3)
            }
        ),
    ]

    @Test("what a transaction does to a counter is one net effect", arguments: transactions)
    func compositions(
        _ what: String, _ value: Value?, _ body: @Sendable (inout DocumentEditor) throws -> Void
    ) throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        for actor: UInt64 in [1, 2] {
            let after = try edited(start, at: 20, by: actor, body)
            #expect(after.value["c"] == value, "\(what)")
            let more = try edited(after, at: 30, by: actor) { try $0.increment(["c"], by: 10) }
            #expect(more.value["c"] == .int((value?.intValue ?? 0) + 10), "\(what)")
        }
    }

    @Test("increments inside a map that the same transaction removes are taken back")
    func takenBackBelow() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["m", "c"], by: 5) }
        let after = try edited(start, at: 20, by: 1) {
            try $0.increment(["m", "c"], by: 1)
            try $0.increment(["m", "new"], by: 1)
            try $0.unset(["m"])
            try $0.increment(["m", "c"], by: 2)
        }
        #expect(Value.object(after.value) == ["m": ["c": 2]])
        #expect(after.root["m"]?.map?["c"]?.counter?[ActorID(1)]?.point.total == 7)
    }

    // MARK: Numbers

    @Test("totals wrap at 64 bits, their differences do not care")
    func wrap() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: .int(.max)) }
        let restarted = try edited(start, at: 20, by: 2) { try $0.restart(["c"], with: 0) }
        let wrapped = try edited(restarted, at: 30, by: 1) { try $0.increment(["c"], by: 2) }
        #expect(wrapped.root["c"]?.counter?[ActorID(1)]?.point.total == .int(.min + 1))
        #expect(wrapped.value["c"] == 2)
    }

    @Test("a sum beyond 64 bits reads as a float, on either side; one that fits is an integer")
    func overflow() throws {
        let parts: [(Int64, Int64, Value)] = [
            (.max, .max, .double(0x1p64)), (.min, .min, .double(-0x1p64)),
            (.max, 1, .double(0x1p63)), (.max, 0, .int(.max)), (.max, .min, -1),
        ]
        for (left, right, sum) in parts {
            let one = try edited(at: 10, by: 1) { try $0.increment(["c"], by: .int(left)) }
            let two = try edited(at: 11, by: 2) { try $0.increment(["c"], by: .int(right)) }
            #expect(one.merged(two).value["c"] == sum)
        }
    }

    @Test("doubles add up in the order of their actors, wherever they met first")
    func doubles() throws {
        let parts: [Document] = try [(3, 0.1), (1, 1e16), (2, -1e16), (4, 0.2)].map { actor, amount in
            try edited(at: 10, by: actor) { try $0.increment(["c"], by: .double(amount)) }
        }
        let sum = Value.double(((1e16 - 1e16) + 0.1) + 0.2)
        #expect(parts.reduce(Document()) { $0.merged($1) }.value["c"] == sum)
        #expect(parts.reversed().reduce(Document()) { $0.merged($1) }.value["c"] == sum)
    }

    @Test("a double among the numbers makes the value a double, and none of them leaves the numbers")
    func mixed() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 2) }
        let half = try edited(start, at: 20, by: 1) { try $0.increment(["c"], by: 0.5) }
        #expect(half.value["c"] == 2.5)
        let restarted = try edited(half, at: 30, by: 1) { try $0.restart(["c"], with: 1.0) }
        #expect(restarted.value["c"] == 1.0)
        let largest = Value.double(.greatestFiniteMagnitude)
        let full = try edited(restarted, at: 40, by: 1) { try $0.increment(["c"], by: largest) }
        let more = try edited(full, at: 50, by: 2) { try $0.increment(["c"], by: largest) }
        let beyond = try edited(more, at: 60, by: 1) { try $0.increment(["c"], by: largest) }
        #expect(beyond.value["c"] == largest)
    }

    @Test("only integers and finite doubles are counted")
    func refused() {
        var editor = DocumentEditor(document: Document(), stamp: Stamp(time: 1, actor: ActorID(1)))
        for value: Value in ["1", .null, true, [1], .double(.nan), .double(.infinity)] {
            #expect(errorCode { try editor.increment(["c"], by: value) } == .unsupportedKind)
            #expect(errorCode { try editor.restart(["c"], with: value) } == .unsupportedKind)
        }
        #expect(errorCode { try editor.increment([], by: 1) } == .invalidPath)
        let deep = Array(repeating: "a", count: Limits.nestingDepth + 1)
        #expect(errorCode { try editor.increment(deep, by: 1) } == .tooDeep)
        #expect(!editor.hasChanges)
    }
}
