import TestSupport
import Testing

@testable import CRDT

/// `Document.diff` against what a reader in place sees of both states.
@Suite("What changed between two states")
struct DiffTests {
    @Test(
        "over random histories, exactly what a reader can tell apart is named, once",
        arguments: Depth.cases(fast: 80, deep: 800))
    func namesEveryDifference(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<10 {
            let (earlier, later) = random.statePair()
            let diff = later.diff(from: earlier)
            let before = try Visible.of(earlier)
            let after = try Visible.of(later)
            let places = Set(before.keys).union(after.keys).filter { before[$0] != after[$0] }
            let named = diff.changes.map { Visible.Place(path: $0.path, kind: $0.kind) }
            #expect(Set(named) == places, "seed \(seed)")
            #expect(named.count == places.count, "seed \(seed): named twice")
            for change in diff.changes {
                let place = Visible.Place(path: change.path, kind: change.kind)
                #expect(change.before == before[place], "seed \(seed), \(change.path)")
                #expect(change.after == after[place], "seed \(seed), \(change.path)")
            }
        }
    }

    @Test(
        "a state does not differ from itself, and the reverse of a diff swaps its sides",
        arguments: Depth.cases(fast: 80, deep: 800))
    func reverses(_ seed: Int) {
        var random = SplitMix64(seed: UInt64(seed) + 1_000)
        let (earlier, later) = random.statePair()
        #expect(later.diff(from: later).isEmpty)
        #expect(earlier.diff(from: earlier).isEmpty)
        let forward = later.diff(from: earlier)
        let backward = earlier.diff(from: later)
        #expect(forward.changes.map(\.path) == backward.changes.map(\.path))
        #expect(forward.changes.map(\.before) == backward.changes.map(\.after))
        #expect(forward.changes.map(\.after) == backward.changes.map(\.before))
        #expect(forward.advances == backward.missing)
        #expect(forward.missing == backward.advances)
        #expect(forward.isEmpty == (earlier == later))
    }

    @Test(
        "writers are stamps that only the later state holds, and it has merged them",
        arguments: Depth.cases(fast: 80, deep: 800))
    func writers(_ seed: Int) {
        var random = SplitMix64(seed: UInt64(seed) + 2_000)
        var (earlier, later) = random.statePair()
        later.merge(earlier)
        let diff = later.diff(from: earlier)
        #expect(diff.missing.isEmpty)
        for change in diff.changes {
            #expect(change.writers.allSatisfy(later.vector.covers), "seed \(seed), \(change.path)")
            #expect(change.writers.allSatisfy { !earlier.vector.covers($0) }, "seed \(seed), \(change.path)")
            #expect(change.writers == change.writers.sorted())
        }
    }

    @Test(
        "changes ascend by path and a map comes before its fields",
        arguments: Depth.cases(fast: 40, deep: 400))
    func order(_ seed: Int) {
        var random = SplitMix64(seed: UInt64(seed) + 3_000)
        let (earlier, later) = random.statePair()
        let paths = later.diff(from: earlier).changes.map { $0.path.map { Array($0.utf8) } }
        let ascends = zip(paths, paths.dropFirst()).allSatisfy { one, two in
            !two.lexicographicallyPrecedes(one) { compareBytes($0, $1) < 0 }
        }
        #expect(ascends, "seed \(seed)")
    }

    @Test("a diff tells a creation, a change, a removal and a conflict, with who and when")
    func example() throws {
        let (alice, bob, carol) = (ActorID(1), ActorID(2), ActorID(3))
        let empty = Document()
        let created = try empty.edited(alice, at: 10) { editor in
            editor.create()
            try editor.set(["name"], "Ada")
            try editor.set(["age"], 36)
        }
        let creation = created.diff(from: empty)
        #expect(creation.changes.map(\.path) == [[], ["age"], ["name"]])
        #expect(creation.changes.map(\.action) == [.added, .added, .added])
        #expect(creation.changes.allSatisfy { $0.writers == [Stamp(time: 10, actor: alice)] })
        #expect(creation.advances == [DocumentDiff.Advance(actor: alice, from: nil, through: 10)])

        let aged = try created.edited(bob, at: 20) { try $0.set(["age"], 37) }
        var conflicted = try created.edited(carol, at: 21) { editor in
            try editor.set(["age"], 38)
            try editor.unset(["name"])
        }
        conflicted.merge(aged)
        let diff = conflicted.diff(from: aged)
        let age = try #require(diff.changes.first { $0.path == ["age"] })
        #expect(age.before == DocumentDiff.Side(value: 37, conflicts: [], isShown: true))
        #expect(age.after == DocumentDiff.Side(value: 38, conflicts: [37], isShown: true))
        #expect(age.action == .changed)
        #expect(age.writers == [Stamp(time: 21, actor: carol)])
        let name = try #require(diff.changes.first { $0.path == ["name"] })
        #expect(name.action == .removed)
        #expect(name.before?.value == "Ada")
        #expect(name.writers.isEmpty)
        #expect(diff.advances == [DocumentDiff.Advance(actor: carol, from: nil, through: 21)])
        #expect(diff.changes.count == 2)
    }

    @Test("a kind that comes to show is a change, although its value is the old one")
    func shadowing() throws {
        let map = try Document().edited(ActorID(1), at: 10) { try $0.set(["a"], ["x": 1]) }
        let register = try Document().edited(ActorID(2), at: 20) { try $0.set(["a"], 5) }
        var both = map
        both.merge(register)
        let diff = both.diff(from: map)
        #expect(diff.changes.map(\.path) == [["a"], ["a"]])
        #expect(diff.changes.map(\.kind) == [.register, .map])
        #expect(diff.changes.map(\.action) == [.added, .changed])
        #expect(diff.changes[1].before?.isShown == true)
        #expect(diff.changes[1].after?.isShown == false)
        #expect(diff.changes[1].writers.isEmpty)
    }

    @Test("a counter's change names who counted, a removed counter leaves no writer")
    func counters() throws {
        let (alice, bob) = (ActorID(1), ActorID(2))
        let one = try Document().edited(alice, at: 10) { try $0.increment(["n"], by: 5) }
        let two = try one.edited(bob, at: 20) { try $0.increment(["n"], by: 2) }
        let diff = two.diff(from: one)
        #expect(diff.changes.map(\.path) == [["n"]])
        #expect(diff.changes[0].kind == .counter)
        #expect(diff.changes[0].before?.value == 5)
        #expect(diff.changes[0].after?.value == 7)
        #expect(diff.changes[0].writers == [Stamp(time: 20, actor: bob)])
        let gone = try two.edited(alice, at: 30) { try $0.unset(["n"]) }
        let removal = gone.diff(from: two)
        #expect(removal.changes.map(\.path) == [[], ["n"]])
        #expect(removal.changes.map(\.action) == [.removed, .removed])
        #expect(removal.changes.allSatisfy { $0.writers.isEmpty })
    }

    @Test("two replicas compared: what the later one still misses is named")
    func replicas() throws {
        let here = try Document().edited(ActorID(1), at: 10) { try $0.set(["a"], 1) }
        let there = try Document().edited(ActorID(2), at: 11) { try $0.set(["b"], 2) }
        let diff = there.diff(from: here)
        #expect(diff.advances == [DocumentDiff.Advance(actor: ActorID(2), from: nil, through: 11)])
        #expect(diff.missing == [DocumentDiff.Advance(actor: ActorID(1), from: nil, through: 10)])
        #expect(diff.changes.map(\.action) == [.removed, .added])
    }
}

/// The leaves of a state that a reader in place sees, by path and kind.
private enum Visible {
    struct Place: Hashable {
        let path: [[UInt8]]
        let kind: FieldKind

        init(path: [String], kind: FieldKind) {
            self.path = path.map { Array($0.utf8) }
            self.kind = kind
        }
    }

    static func of(_ document: Document) throws -> [Place: DocumentDiff.Side] {
        var sides: [Place: DocumentDiff.Side] = [:]
        let there = DocumentDiff.Side(value: .object(ObjectValue()), conflicts: [], isShown: true)
        try document.encoded().withUnsafeBytes { raw in
            let reader = try DocumentReader(raw)
            if reader.isLive { sides[Place(path: [], kind: .map)] = there }
            try collect(reader.root, [], document, &sides)
        }
        return sides
    }

    private static func collect(
        _ map: MapReader, _ path: [String], _ document: Document, _ sides: inout [Place: DocumentDiff.Side]
    ) throws {
        var fields: [(String, FieldReader)] = []
        try map.forEach { key, field in fields.append((key, field)) }
        for (key, field) in fields {
            let path = path + [key]
            let slot = try #require(document.root[path[...]])
            func note(_ kind: FieldKind, _ value: Value?, _ losers: [Value] = []) {
                sides[Place(path: path, kind: kind)] = value.map {
                    DocumentDiff.Side(value: $0, conflicts: losers, isShown: field.newestKind == kind)
                }
            }
            note(.register, try field.register(), slot.register.dropLast().reversed().map(\.value))
            note(.counter, try field.counter())
            note(.attachment, try field.attachment(), slot.attachment.dropLast().reversed().map(\.value))
            if let below = try field.map() {
                note(.map, .object(ObjectValue()))
                try collect(below, path, document, &sides)
            }
        }
    }
}

extension Document {
    fileprivate func edited(
        _ actor: ActorID, at time: Timestamp, _ body: (inout DocumentEditor) throws -> Void
    ) throws -> Document {
        var editor = DocumentEditor(document: self, stamp: Stamp(time: time, actor: actor))
        try body(&editor)
        return editor.document
    }
}

extension SplitMix64 {
    /// Two states of one document: one after the other, or of two replicas.
    fileprivate mutating func statePair() -> (Document, Document) {
        let earlier = document(rounds: 1 + below(8))
        guard chance(70) else {
            // Other actors than the earlier document's, so that no stamp has two contents.
            var later = earlier
            for _ in 0...below(3) { later = advanced(later) }
            return (advanced(earlier, actor: 20), later)
        }
        var later = earlier
        for _ in 0...below(4) { later = advanced(later) }
        return (earlier, later)
    }

    private mutating func advanced(_ document: Document, actor: UInt64 = 10) -> Document {
        let time = (document.vector.greatestTime ?? 0) + 1 + UInt64(below(9))
        var editor = DocumentEditor(document: document, stamp: Stamp(time: time, actor: ActorID(actor)))
        for edit in transaction() + transaction() { _ = try? edit.perform(on: &editor) }
        return editor.hasChanges ? editor.document : document
    }
}
